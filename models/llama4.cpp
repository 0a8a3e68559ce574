//===- llama4.cpp - Llama 4 Scout and Maverick, text ----------------------===//
//
// Every fourth layer sees all, does not rotate, and has a temperature that
// grows with the position. The others see the tokens of their own chunk of 8192
// positions, which longer contexts would need; these are refused. The weight of
// a token's only expert multiplies what the expert reads. RoPE pairs
// neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

#include <fmt/format.h>

namespace moec {

/// Constants of the model, for which files have no keys.
static constexpr int64_t kChunk = 8192;
static constexpr Temperature kTemperature{kChunk, /*offset=*/1, /*slope=*/0.1};

moert::Status buildLlama4(ModelBuilder &model) {
  const HyperParams &params = model.params();
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.weighsInput = true;
  MOE_ASSIGN_OR_RETURN(Transformer llama, readTransformer(model, traits));
  // A window of 0 says that there are no chunks.
  MOE_ASSIGN_OR_RETURN(
      int64_t window,
      params.integer("attention.sliding_window", 0, INT32_MAX, kChunk));
  if (window > 0 && model.positions() > kChunk)
    return moert::Status(
        moert::StatusCode::Unsupported,
        fmt::format("{}: attention in chunks of {} positions is not supported, "
                    "and the context is {}; compile with --ctx {}",
                    model.file().paths().front(), kChunk, model.positions(),
                    kChunk));
  for (size_t layer = 0; layer < llama.attention.size(); ++layer) {
    GroupedAttention &attention = llama.attention[layer];
    const FeedForward &ffn = llama.feedForward[layer];
    if (ffn.isRouted && ffn.experts.used != 1)
      return params.error(
          moert::StatusCode::Unsupported, "expert_used_count",
          fmt::format("is {}; only 1 is supported", ffn.experts.used));
    if (window > 0 && layer % 4 == 3) {
      attention.rope = {};
      attention.temperature = kTemperature;
      continue;
    }
    // The model Maverick has no norms.
    attention.normsBare = model.facts().experts != 128;
    attention.normsRotated = true;
  }
  return buildTransformer(model, llama);
}

} // namespace moec
