//===- phi3.cpp - Phi-3, 3.5 and 4 ---------------------------------------===//
//
// arXiv 2404.14219. Files fuse queries, keys and values, and gate and up. All
// layers have the window, if the file has one; llama.cpp ignores it.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildPhi3(ModelBuilder &model) {
  TransformerTraits traits;
  traits.windows.period = WindowTraits::kAll;
  traits.windows.tokens = 0;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
