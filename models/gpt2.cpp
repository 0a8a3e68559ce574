//===- gpt2.cpp - GPT-2 --------------------------------------------------===//
//
// Positions are embedded by a table of their own.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/Transformer.h"

namespace moec {

moert::Status buildGpt2(ModelBuilder &model) {
  TransformerTraits traits;
  traits.rope.rotates = false;
  traits.centres = true;
  traits.experts.activation = mlir::moe::Activation::Gelu;
  traits.gated = false;
  traits.mayBeDense = true;
  MOE_ASSIGN_OR_RETURN(Transformer gpt, readTransformer(model, traits));
  gpt.decoder.embedsPositions = true;
  return buildTransformer(model, gpt);
}

} // namespace moec
