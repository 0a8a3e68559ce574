//===- phimoe.cpp - Phi-3.5-MoE ------------------------------------------===//
//
// arXiv 2404.14219. LayerNorms with biases, whose epsilon has the key of RMS
// norms. The router is a sparse mixer, in place of which llama.cpp has RMS
// norms and a softmax.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildPhimoe(ModelBuilder &model) {
  TransformerTraits traits;
  MOE_ASSIGN_OR_RETURN(Transformer phi, readTransformer(model, traits));
  for (FeedForward &ffn : phi.feedForward)
    ffn.experts.scoring = mlir::moe::Scoring::SparseMixer;
  phi.decoder.centres = true;
  return buildTransformer(model, phi);
}

} // namespace moec
