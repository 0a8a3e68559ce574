//===- qwen3next.cpp - Qwen3-Next and Qwen3-Coder-Next --------------------===//
//
// Three of every four layers are gated delta nets, in which neighbouring value
// heads share a key.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/DeltaNet.h"

namespace moec {

moert::Status buildQwen3next(ModelBuilder &model) {
  return buildDeltaTransformer(model, /*tiled=*/false);
}

} // namespace moec
