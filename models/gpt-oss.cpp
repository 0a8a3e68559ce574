//===- gpt-oss.cpp - gpt-oss-20b and 120b ---------------------------------===//
//
// arXiv 2508.10925. Every second layer has a window, and each head has a sink.
// YaRN's ramp is not rounded here; other engines round it.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGptOss(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.rounded = false;
  traits.windows.period = 2;
  traits.experts.scoring = mlir::moe::Scoring::SoftmaxTopK;
  traits.experts.activation = mlir::moe::Activation::ClampedSwiglu;
  return buildTransformer(model, traits);
}

} // namespace moec
