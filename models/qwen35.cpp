//===- qwen35.cpp - Qwen3.5 and 3.6, with experts and without -------------===//
//
// Like Qwen3-Next, but files have value heads in another order.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/DeltaNet.h"

namespace moec {

moert::Status buildQwen35(ModelBuilder &model) {
  return buildDeltaTransformer(model, /*tiled=*/true);
}

} // namespace moec
