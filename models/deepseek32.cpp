//===- deepseek32.cpp - DeepSeek-V3.2 -------------------------------------===//
//
// DeepSeek-V3 whose attention sees what a lightning indexer chose: arXiv
// 2512.02556.
//
//===----------------------------------------------------------------------===//

#include "models/Builders.h"
#include "models/LightningIndexer.h"

moert::Status moec::buildDeepseek32(ModelBuilder &model) {
  return buildSparseLatentModel(model, /*neox=*/true);
}
