//===- smallthinker.cpp - SmallThinker -----------------------------------===//
//
// arXiv 2507.20984. The router reads what the layer begins with, before
// attention. The first of every four layers sees all and does not rotate.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildSmallthinker(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = 4;
  traits.windows.firstIsFull = true;
  traits.windows.tokens = 0;
  traits.windows.ownRope = true;
  traits.windows.scaledRope = true;
  traits.experts.normalize = true;
  traits.experts.readsBegun = true;
  traits.experts.activation = mlir::moe::Activation::Relu;
  MOE_ASSIGN_OR_RETURN(Transformer thinker, readTransformer(model, traits));
  rotateOnlyWindowed(thinker);
  return buildTransformer(model, thinker);
}

} // namespace moec
