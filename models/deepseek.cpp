//===- deepseek.cpp - DeepSeekMoE 16B ------------------------------------===//
//
// arXiv 2401.06066. RoPE pairs neighbours. Weights of the chosen experts are
// not normalised.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildDeepseek(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  return buildTransformer(model, traits);
}

} // namespace moec
