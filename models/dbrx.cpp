//===- dbrx.cpp - DBRX ---------------------------------------------------===//
//
// Files fuse queries, keys and values, and clamp them. LayerNorms have no bias.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildDbrx(ModelBuilder &model) {
  TransformerTraits traits;
  traits.centres = true;
  traits.experts.normalize = true;
  return buildTransformer(model, traits);
}

} // namespace moec
