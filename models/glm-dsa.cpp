//===- glm-dsa.cpp - GLM-5, 5.1 and 5.2 -----------------------------------===//
//
// DeepSeek-V3.2's attention, whose indexer turns neighbours; in GLM-5.2 layers
// without an indexer follow the choice of the last one.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/LightningIndexer.h"

moert::Status moec::buildGlmDsa(ModelBuilder &model) {
  return buildSparseLatentModel(model, /*neox=*/false);
}
