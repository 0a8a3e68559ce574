//===- qwen3moe.cpp - Qwen3-30B-A3B and 235B-A22B -------------------------===//
//
// arXiv 2505.09388. Heads have more elements than hidden size / heads.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildQwen3moe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.normalize = true;
  return buildTransformer(model, traits);
}

} // namespace moec
