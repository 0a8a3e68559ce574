//===- falcon.cpp - Falcon 7B and 40B ------------------------------------===//
//
// arXiv 2311.16867. Attention and FFN read the same LayerNorm, or in Falcon 40B
// one each. FFNs have no gate, and their GELU is that of erf, which llama.cpp
// approximates by tanh.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildFalcon(ModelBuilder &model) {
  TransformerTraits traits;
  traits.centres = true;
  traits.parallel = true;
  traits.experts.activation = mlir::moe::Activation::GeluErf;
  traits.gated = false;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
