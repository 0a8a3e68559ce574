//===- BlockIndexer.h - Selects blocks of positions -------------*- C++ -*-===//

#ifndef MOE_MODELS_BLOCKINDEXER_H
#define MOE_MODELS_BLOCKINDEXER_H

#include "models/GroupedAttention.h"

namespace moec {

/// The indexer of MiniMax M3: for each head of keys and values a small query,
/// which ranks blocks of `ratio` positions by its largest product with a key of
/// the block. Attention sees the best `used` blocks, among which are always the
/// `local` last ones.
struct BlockIndexer {
  int64_t groups = 0, key = 0, used = 0, ratio = 0, local = 0;
  mlir::moe::RopeAttr rope; ///< Rotates the first elements of queries and keys.
  double eps = 0;           ///< Epsilon of the norms of queries and keys.
};

/// Reads the keys attention.indexer.* for `attention`, whose rotation and
/// epsilon the indexer shares.
moert::StatusOr<BlockIndexer>
readBlockIndexer(ModelBuilder &model, const GroupedAttention &attention);

/// Returns the blocks for normed rows `x` [T, hidden]. Keys are stored in the
/// second cache of `layer`.
moert::StatusOr<BlockChoice>
buildBlockChoice(ModelBuilder &model, const BlockIndexer &config, int64_t layer,
                 const std::string &block, mlir::Value x);

} // namespace moec

#endif // MOE_MODELS_BLOCKINDEXER_H
