//===- dots1.cpp - dots.llm1 ---------------------------------------------===//
//
// arXiv 2506.05767. Routing as in DeepSeek-V3, without groups.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildDots1(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  return buildTransformer(model, traits);
}

} // namespace moec
