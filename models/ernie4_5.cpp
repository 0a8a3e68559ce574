//===- ernie4_5.cpp - ERNIE 4.5 without experts --------------------------===//
//
// RoPE pairs neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildErnie45(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
