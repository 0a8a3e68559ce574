//===- gemma2.cpp - Gemma 2 -----------------------------------------------===//
//
// arXiv 2408.00118. Every second layer, beginning with the first, has a window.
// Scores and logits have softcaps. Attention and FFN have norms before and
// after them. The first files lacked the keys for window and softcaps, which
// are the same for all sizes. 27B, with 46 layers, has keys of 128 and divides
// scores by the square root of 144.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGemma2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = 2;
  traits.windows.tokens = 4096;
  traits.scalesEmbedding = true;
  traits.norms = Norms::Both;
  traits.softcap = 50;
  traits.finalSoftcap = 30;
  traits.experts.activation = mlir::moe::Activation::Gelu;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer gemma, readTransformer(model, traits));
  if (gemma.decoder.layers == 46)
    scaleByWidth(gemma);
  return buildTransformer(model, gemma);
}

} // namespace moec
