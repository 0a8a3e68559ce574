//===- minimax-m2.cpp - MiniMax-M2 ----------------------------------------===//
//
// Queries have one norm over all heads together, and so do keys; the length of
// the norm's weight shows this.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildMinimaxM2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  return buildTransformer(model, traits);
}

} // namespace moec
