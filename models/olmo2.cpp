//===- olmo2.cpp - OLMo 2 and 3 ------------------------------------------===//
//
// arXiv 2501.00656. Results are normed, not inputs. OLMo 3 has windows in three
// of four layers, to which rope.scaling does not apply.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildOlmo2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.norms = Norms::Results;
  traits.windows.period = 4;
  traits.windows.tokens = 0;
  traits.windows.ownRope = true;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
