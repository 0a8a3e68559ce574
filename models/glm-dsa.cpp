//===- glm-dsa.cpp - GLM-5, 5.1 and 5.2 -----------------------------------===//
//
// DeepSeek-V3.2's attention, but the indexer's rotation pairs neighbours. In
// GLM-5.2, layers without an indexer use the choice of the previous indexer.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/LightningIndexer.h"

moert::Status moec::buildGlmDsa(ModelBuilder &model) {
  return buildSparseLatentModel(model, /*neox=*/false);
}
