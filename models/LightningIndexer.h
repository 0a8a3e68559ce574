//===- LightningIndexer.h - Selects positions to attend to ------*- C++ -*-===//

#ifndef MOE_MODELS_LIGHTNINGINDEXER_H
#define MOE_MODELS_LIGHTNINGINDEXER_H

#include "models/LatentAttention.h"
#include "models/Limits.h"

namespace moec {

/// The indexer of DeepSeek-V3.2 (arXiv 2512.02556): a few small heads score
/// every position by relu(q . k), weighted per token; attention sees the best
/// `used` positions.
struct LightningIndexer {
  int64_t heads = 0, key = 0;
  int64_t used = 0; ///< Positions, or pools of positions, that are chosen.
  mlir::moe::RopeAttr rope; ///< Rotates the first elements; null: none.
  double eps = 1e-6;        ///< Epsilon of the norm of keys.
  /// Positions that are scored and chosen together. Their key is the sum of
  /// theirs, weighted column by column with a softmax of gates; positions
  /// behind the last complete block need no choice.
  int64_t pool = 1;
  /// Layers that attention.indexer.types describes; others have an indexer if
  /// they have its tensors, and see all positions otherwise.
  int64_t listed = kMostLayers;
};

/// Reads the keys attention.indexer.*.
moert::StatusOr<LightningIndexer> readIndexer(ModelBuilder &model,
                                              mlir::moe::RopeAttr rope);

/// Reads attention.indexer.kpool and kpool_select_tail. `used` positions become
/// as many as fit in pools.
moert::Status readPools(const HyperParams &params, LightningIndexer &config);

/// Returns ids [T, used] of the chosen positions or pools, for normed rows `x`
/// [T, hidden] and the low-rank factor `queries` of the queries. Keys are
/// stored in the layer's second cache.
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

/// Builds latent attention to the positions that the indexer of `layer` chooses
/// for normed rows `x`. `chosen` is the previous choice, which layers without
/// an indexer use, and becomes this layer's.
moert::StatusOr<mlir::Value>
buildChosenAttention(ModelBuilder &model, const LatentAttention &attention,
                     const LightningIndexer &indexer, int64_t layer,
                     const std::string &block, mlir::Value x,
                     mlir::Value &chosen);

/// Builds a whole architecture: MLA over the positions that indexers choose,
/// and routed experts. `neox` is the pairing of elements in the indexer's
/// rotation.
moert::Status buildSparseLatentModel(ModelBuilder &model, bool neox);

} // namespace moec

#endif // MOE_MODELS_LIGHTNINGINDEXER_H
