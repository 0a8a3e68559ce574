//===- smollm3.cpp - SmolLM3 ---------------------------------------------===//
//
// Every fourth layer does not rotate (arXiv 2501.18795).
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildSmollm3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.neox = false;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer smol, readTransformer(model, traits));
  for (size_t layer = 3; layer < smol.attention.size(); layer += 4)
    smol.attention[layer].rope = {};
  return buildTransformer(model, smol);
}

} // namespace moec
