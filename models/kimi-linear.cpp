//===- kimi-linear.cpp - Kimi Linear --------------------------------------===//
//
// arXiv 2510.26692. Three of every four layers are Kimi Delta Attention, the
// others latent attention without RoPE. Routing as in DeepSeek-V3.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/KimiDelta.h"

namespace moec {

moert::Status buildKimiLinear(ModelBuilder &model) {
  RoutedExperts defaults;
  defaults.scoring = mlir::moe::Scoring::Sigmoid;
  defaults.normalize = true;
  return buildKimiTransformer(model, /*rotates=*/false, defaults);
}

} // namespace moec
