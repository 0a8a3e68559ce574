//===- afmoe.cpp - Arcee Trinity -----------------------------------------===//
//
// Every fourth layer sees all and does not rotate. Results of attention are
// gated; inputs and results of both parts are normed.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildAfmoe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.norms = Norms::Both;
  traits.scalesEmbedding = true;
  traits.windows.period = 4;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  MOE_ASSIGN_OR_RETURN(Transformer trinity, readTransformer(model, traits));
  rotateOnlyWindowed(trinity);
  return buildTransformer(model, trinity);
}

} // namespace moec
