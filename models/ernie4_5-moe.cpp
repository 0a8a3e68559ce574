//===- ernie4_5-moe.cpp - ERNIE 4.5 with experts -------------------------===//
//
// A bias selects among softmax scores. RoPE pairs neighbours.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildErnie45Moe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.experts.normalize = true;
  return buildTransformer(model, traits);
}

} // namespace moec
