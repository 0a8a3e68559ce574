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

moert::Status buildStep35(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.divisor = 2;
  traits.windows.period = WindowTraits::kListed;
  traits.windows.ownRope = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.whereRouters = true;
  MOE_ASSIGN_OR_RETURN(Transformer step, readTransformer(model, traits));
  MOE_RETURN_IF_ERROR(readLimits(model.params(), step.feedForward,
                                 /*clampsActivated=*/true));
  return buildTransformer(model, step);
}

} // namespace moec
