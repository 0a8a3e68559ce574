//===- hunyuan-moe.cpp - Hunyuan-A13B ------------------------------------===//
//
// arXiv 2411.02265. Queries and keys are normed after the rotation.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildHunyuanMoe(ModelBuilder &model) {
  TransformerTraits traits;
  traits.experts.normalize = true;
  MOE_ASSIGN_OR_RETURN(Transformer hunyuan, readTransformer(model, traits));
  for (GroupedAttention &attention : hunyuan.attention)
    attention.normsRotated = true;
  return buildTransformer(model, hunyuan);
}

} // namespace moec
