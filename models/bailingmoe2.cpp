//===- bailingmoe2.cpp - Ling 2.0 ----------------------------------------===//
//
// arXiv 2510.22115. Routing as in DeepSeek-V3, also in files without a
// selection bias. Part of a head is rotated, as files state.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildBailingmoe2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.ranksPairs = true;
  return buildTransformer(model, traits);
}

} // namespace moec
