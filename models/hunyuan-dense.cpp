//===- hunyuan-dense.cpp - Hunyuan 0.5B to 7B ----------------------------===//
//
// Queries and keys are normed after the rotation, as in Hunyuan-A13B.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildHunyuanDense(ModelBuilder &model) {
  TransformerTraits traits;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer hunyuan, readTransformer(model, traits));
  for (GroupedAttention &attention : hunyuan.attention)
    attention.normsRotated = true;
  return buildTransformer(model, hunyuan);
}

} // namespace moec
