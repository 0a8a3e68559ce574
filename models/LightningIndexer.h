//===- LightningIndexer.h - Which positions a token attends to --*- C++ -*-===//

#ifndef MOE_MODELS_LIGHTNINGINDEXER_H
#define MOE_MODELS_LIGHTNINGINDEXER_H

#include "models/ModelBuilder.h"

namespace moec {

/// DeepSeek-V3.2, arXiv 2512.02556: few small heads score every position by
/// relu(q . k), weighted by the token; the best `used` are attended to.
struct LightningIndexer {
  int64_t heads = 0, key = 0, used = 0;
  mlir::moe::RopeAttr rope; ///< Of the first elements of queries and keys.
};

/// The keys attention.indexer.*.
moert::StatusOr<LightningIndexer> readIndexer(ModelBuilder &model,
                                              mlir::moe::RopeAttr rope);

/// The choice for normed rows `x` [T, hidden], whose queries' low-rank factor
/// is `queries`: ids [T, used]. Its keys are the layer's second cache.
moert::StatusOr<mlir::Value>
buildIndexer(ModelBuilder &model, const LightningIndexer &config, int64_t layer,
             const std::string &block, mlir::Value x, mlir::Value queries);

/// Queries before they are turned, weights of heads, and the choice that both
/// make with keys in `kv`, whose rows are for `ratio` positions each.
struct IndexQueries {
  mlir::Value q, weights;
};
moert::StatusOr<IndexQueries>
buildIndexQueries(ModelBuilder &model, const LightningIndexer &config,
                  const std::string &block, mlir::Value x, mlir::Value queries);
mlir::Value buildIndexChoice(ModelBuilder &model,
                             const LightningIndexer &config,
                             const std::string &block, IndexQueries queries,
                             mlir::Value kv, int64_t ratio);

/// A whole architecture: MLA over what indexers chose, and routed experts. The
/// indexer's rotation pairs elements as `neox` says.
moert::Status buildSparseLatentModel(ModelBuilder &model, bool neox);

} // namespace moec

#endif // MOE_MODELS_LIGHTNINGINDEXER_H
