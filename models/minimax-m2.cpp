//===- minimax-m2.cpp - MiniMax-M2 ----------------------------------------===//
//
// One norm over the queries of all heads together, and one over the keys: their
// length tells.
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
