//===- qwen2.cpp - Qwen2 and 2.5 without experts --------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildQwen2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
