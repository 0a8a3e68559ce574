//===- llada-moe.cpp - LLaDA-MoE, read from left to right ----------------===//
//
// arXiv 2509.24389. The model is trained to fill in masked tokens anywhere in a
// text; here each token sees those before it. Weights of the chosen experts are
// not normalised.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildLladaMoe(ModelBuilder &model) {
  TransformerTraits traits;
  return buildTransformer(model, traits);
}

} // namespace moec
