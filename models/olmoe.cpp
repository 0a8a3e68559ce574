//===- olmoe.cpp - OLMoE -------------------------------------------------===//
//
// arXiv 2409.02060. Queries have one norm over all heads together, and so do
// keys. Weights of the chosen experts are not normalised.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildOlmoe(ModelBuilder &model) {
  TransformerTraits traits;
  return buildTransformer(model, traits);
}

} // namespace moec
