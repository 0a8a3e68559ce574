//===- starcoder2.cpp - StarCoder2 ---------------------------------------===//
//
// arXiv 2402.19173. LayerNorms and FFNs without a gate.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildStarcoder2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.centres = true;
  traits.experts.activation = mlir::moe::Activation::Gelu;
  traits.gated = false;
  traits.mayBeDense = true;
  return buildTransformer(model, traits);
}

} // namespace moec
