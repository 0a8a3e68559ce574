//===- exaone-moe.cpp - K-EXAONE -----------------------------------------===//
//
// arXiv 2601.01739. Every fourth layer sees all and does not rotate. Routing as
// in DeepSeek-V3.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildExaoneMoe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.windows.period = 4;
  traits.windows.tokens = 0;
  MOE_ASSIGN_OR_RETURN(Transformer exaone, readTransformer(model, traits));
  rotateOnlyWindowed(exaone);
  return buildTransformer(model, exaone);
}

} // namespace moec
