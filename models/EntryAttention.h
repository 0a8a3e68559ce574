//===- EntryAttention.h - Attention to a window and to entries --*- C++ -*-===//
//
// DeepSeek-V4 and V4.1: all heads share a key, which is the value too. A token
// sees the keys of a window, and entries that are made of earlier tokens, among
// which an indexer may choose.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_ENTRYATTENTION_H
#define MOE_MODELS_ENTRYATTENTION_H

#include "models/GroupedAttention.h"
#include "models/LightningIndexer.h"

namespace moec {

/// Numbers of a layer's caches and states beside kIndexPart.
inline constexpr uint64_t kWindowPart = 0, kEntriesPart = 2;

struct EntryAttention {
  int64_t heads, key, queryRank, window, groups, outputRank;
  /// Rotation in layers without entries, and in layers with entries.
  mlir::moe::RopeAttr windowRope, entryRope;
  LightningIndexer indexer;
  double eps;
};

moert::StatusOr<EntryAttention> readEntryAttention(ModelBuilder &model,
                                                   double eps);

/// Rotates the last elements of each head.
mlir::Value rotateTail(ModelBuilder &model, const std::string &label,
                       mlir::Value x, int64_t heads, mlir::moe::RopeAttr rope);

/// Returns the normed low-rank factor of the queries.
moert::StatusOr<mlir::Value> buildLowQueries(ModelBuilder &model,
                                             const EntryAttention &a,
                                             const std::string &block,
                                             mlir::Value x);

/// What a layer sees beside its window: entries of `ratio` tokens each (0:
/// none), and the choice among them (null: all are seen).
struct SeenEntries {
  int64_t ratio = 0;
  mlir::Value entries, chosen;
};

/// Queries and the window's cache of a layer.
struct WindowRows {
  mlir::Value q, rows;
};

/// Builds them, in a layer that sees entries or not.
moert::StatusOr<WindowRows> buildWindow(ModelBuilder &model,
                                        const EntryAttention &a, int64_t layer,
                                        const std::string &block, mlir::Value x,
                                        mlir::Value low, bool seesEntries,
                                        bool normsQueries);

/// Builds the rest of a layer's attention and its output projection to
/// [T, hidden].
moert::StatusOr<mlir::Value>
buildEntryAttention(ModelBuilder &model, const EntryAttention &a,
                    const std::string &block, const WindowRows &window,
                    const SeenEntries &seen, int64_t hidden);

} // namespace moec

#endif // MOE_MODELS_ENTRYATTENTION_H
