//===- glm4moe.cpp - GLM-4.5, 4.6 and 4.7 ---------------------------------===//
//
// arXiv 2508.06471. Routing as in DeepSeek-V3, without groups. Half of a head
// is rotated, as files state.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGlm4moe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.drafts = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  return buildTransformer(model, traits);
}

} // namespace moec
