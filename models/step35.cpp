//===- step35.cpp - Step 3.5 and 3.7 -------------------------------------===//
//
// Windowed layers have other heads and a rotation of their own; layers without
// a window rotate half of a head. A gate of each head multiplies what attention
// returns. Some layers clamp gate, after its activation, and up. The tensors of
// a layer say whether it has experts.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

/// Returns the limit of a layer; 0: none.
static moert::StatusOr<double> readLimit(const HyperParams &params,
                                         const char *name, int64_t layer) {
  if (!params.has(name))
    return 0.0;
  return params.positiveOfLayer(name, layer, /*zeroToo=*/true);
}

moert::Status buildStep35(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.divisor = 2;
  traits.windows.period = WindowTraits::kListed;
  traits.windows.ownRope = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.whereRouters = true;
  traits.experts.clampsActivated = true;
  MOE_ASSIGN_OR_RETURN(Transformer step, readTransformer(model, traits));
  const HyperParams &params = model.params();
  for (int64_t layer = 0; layer < step.decoder.layers; ++layer) {
    FeedForward &ffn = step.feedForward[size_t(layer)];
    MOE_ASSIGN_OR_RETURN(ffn.experts.limit,
                         readLimit(params, "swiglu_clamp_exp", layer));
    MOE_ASSIGN_OR_RETURN(ffn.experts.sharedLimit,
                         readLimit(params, "swiglu_clamp_shexp", layer));
    ffn.limit = ffn.experts.sharedLimit;
    ffn.clampsActivated = true;
  }
  return buildTransformer(model, step);
}

} // namespace moec
