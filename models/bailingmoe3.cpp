//===- bailingmoe3.cpp - Ling 3 -------------------------------------------===//
//
// Kimi Delta Attention (arXiv 2510.26692) with decays above a bound, and latent
// attention with RoPE, whose heads have gates. Routing as in DeepSeek-V3.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/KimiDelta.h"

namespace moec {

moert::Status buildBailingmoe3(ModelBuilder &model) {
  RoutedExperts defaults;
  defaults.scoring = mlir::moe::Scoring::Sigmoid;
  defaults.ranksPairs = true;
  return buildKimiTransformer(model, /*rotates=*/true, defaults);
}

} // namespace moec
