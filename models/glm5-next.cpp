//===- glm5-next.cpp - GLM-5.3 --------------------------------------------===//
//
// Several residual streams (hyper-connections), which the head reads as their
// mean. Most layers are Kimi Delta Attention; the others are latent attention
// without RoPE to pools of positions that an indexer chooses, or that the
// previous indexer chose, and to those behind the last complete pool. All FFNs
// clamp gate and up.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/HyperStreams.h"
#include "models/KimiDelta.h"
#include "models/LightningIndexer.h"

using mlir::Value;
using moert::StatusOr;

namespace moec {

moert::Status buildGlm5Next(ModelBuilder &model) {
  const HyperParams &params = model.params();
  MOE_ASSIGN_OR_RETURN(Decoder decoder, readDecoder(model));
  MOE_ASSIGN_OR_RETURN(HyperStreams streams, readHyperStreams(params));
  MOE_ASSIGN_OR_RETURN(
      LatentAttention attention,
      readLatentAttention(model, decoder.eps, /*rotates=*/false));
  MOE_ASSIGN_OR_RETURN(LightningIndexer indexer,
                       readIndexer(model, /*rope=*/{}));
  MOE_RETURN_IF_ERROR(readPools(params, indexer));
  MOE_ASSIGN_OR_RETURN(
      indexer.eps,
      params.positive("attention.layer_norm_epsilon", indexer.eps));
  MOE_ASSIGN_OR_RETURN(KimiDelta net, readKimiDelta(model, decoder.eps));
  RoutedExperts defaults;
  defaults.scoring = mlir::moe::Scoring::Sigmoid;
  defaults.ranksPairs = true;
  MOE_ASSIGN_OR_RETURN(std::vector<FeedForward> ffn,
                       readFeedForward(model, decoder, defaults));
  MOE_RETURN_IF_ERROR(readLimits(params, ffn, /*clampsActivated=*/false));

  Value chosen;
  MOE_ASSIGN_OR_RETURN(Value x, beginForward(model, decoder));
  x = spreadStreams(model, streams, "token_embd.", x);
  for (int64_t layer = 0; layer < decoder.layers; ++layer) {
    const std::string &block = model.beginLayer(layer);
    auto mix = [&](Value y) -> StatusOr<Value> {
      MOE_ASSIGN_OR_RETURN(bool attends, hasAttention(model, layer));
      if (!attends)
        return buildKimiDelta(model, net, layer, block, y);
      return buildChosenAttention(model, attention, indexer, layer, block, y,
                                  chosen);
    };
    auto feedForward = [&](Value y) {
      return buildFeedForward(model, ffn[size_t(layer)], block, y);
    };
    MOE_ASSIGN_OR_RETURN(x, buildStreamPart(model, streams, decoder,
                                            block + "hc_attn_",
                                            block + "attn_norm", x, mix));
    MOE_ASSIGN_OR_RETURN(
        x, buildStreamPart(model, streams, decoder, block + "hc_ffn_",
                           block + "ffn_norm", x, feedForward));
  }
  model.endLayers();
  return endForward(
      model, decoder,
      collapseStreams(model, streams, "output_hc_", x, /*weights=*/{}));
}

} // namespace moec
