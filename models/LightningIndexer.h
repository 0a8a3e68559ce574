//===- LightningIndexer.h - Selects positions to attend to ------*- C++ -*-===//

#ifndef MOE_MODELS_LIGHTNINGINDEXER_H
#define MOE_MODELS_LIGHTNINGINDEXER_H

#include "models/ModelBuilder.h"

namespace moec {

/// The indexer of DeepSeek-V3.2 (arXiv 2512.02556): a few small heads score
/// every position by relu(q . k), weighted per token; attention sees the best
/// `used` positions.
struct LightningIndexer {
  int64_t heads = 0, key = 0, used = 0;
  mlir::moe::RopeAttr rope; ///< Rotates the first elements.
};

/// Reads the keys attention.indexer.*.
moert::StatusOr<LightningIndexer> readIndexer(ModelBuilder &model,
                                              mlir::moe::RopeAttr rope);

/// Returns ids [T, used] of the chosen positions, for normed rows `x` [T,
/// hidden] and the low-rank factor `queries` of the queries. Keys are stored in
/// the layer's second cache.
moert::StatusOr<mlir::Value>
buildIndexer(ModelBuilder &model, const LightningIndexer &config, int64_t layer,
             const std::string &block, mlir::Value x, mlir::Value queries);

/// Queries before rotation, and weights of heads. buildIndexChoice() makes the
/// choice from these and the keys in `kv`, each row of which stands for `ratio`
/// positions.
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

/// Builds a whole architecture: MLA over the positions that indexers choose,
/// and routed experts. `neox` is the pairing of elements in the indexer's
/// rotation.
moert::Status buildSparseLatentModel(ModelBuilder &model, bool neox);

} // namespace moec

#endif // MOE_MODELS_LIGHTNINGINDEXER_H
