//===- gemma3.cpp - The text part of Gemma 3 ------------------------------===//
//
// arXiv 2503.19786. Five of every six layers have a window. These rotate with a
// base of their own, and the linear scaling of larger models only applies to
// the sixth. Queries and keys are normed per head, instead of Gemma 2's
// softcaps. 27B, with 62 layers, has keys of 128 and divides scores by the
// square root of 168.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGemma3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = 6;
  traits.windows.tokens = 0;
  traits.windows.ownRope = true;
  traits.windows.ownBase = 1e4;
  traits.scalesEmbedding = true;
  traits.norms = Norms::Both;
  traits.experts.activation = mlir::moe::Activation::Gelu;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer gemma, readTransformer(model, traits));
  if (gemma.decoder.layers == 62)
    scaleByWidth(gemma);
  return buildTransformer(model, gemma);
}

} // namespace moec
