//===- hy_v3.cpp - Hunyuan 3 ---------------------------------------------===//
//
// Routing as in DeepSeek-V3, without groups. The tensors of a layer say whether
// it has experts; files also have a key, which their writers did not fill.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildHyV3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.drafts = true;
  traits.experts.scoring = mlir::moe::Scoring::Sigmoid;
  traits.experts.normalize = true;
  traits.experts.whereRouters = true;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
