//===- deepseek32.cpp - DeepSeek-V3.2 -------------------------------------===//
//
// DeepSeek-V3 with attention to the positions that a lightning indexer chooses:
// arXiv 2512.02556.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/LightningIndexer.h"

moert::Status moec::buildDeepseek32(ModelBuilder &model) {
  return buildSparseLatentModel(model, /*neox=*/true);
}
