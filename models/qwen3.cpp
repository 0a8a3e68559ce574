//===- qwen3.cpp - Qwen3 without experts ----------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildQwen3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
