//===- ParallelPieces.h - Threads that take piece after piece ---*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PARALLELPIECES_H
#define MOE_RUNTIME_BASE_PARALLELPIECES_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace moert {

struct PiecesOptions {
  int threads = 0; ///< 0 for one per core.
  /// Called by the calling thread after each of its pieces and at the end with
  /// the bytes done so far and in all; false gives up. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
};

/// Does piece `index`; returns its bytes.
using PieceTask = std::function<StatusOr<uint64_t>(size_t index)>;

/// Runs a task for each of `count` pieces with `total` bytes. Every thread
/// calls `makeTask` for one of its own, which may hold buffers. Fails as the
/// first task that fails, or with Cancelled.
Status forEachPiece(size_t count, uint64_t total, const PiecesOptions &options,
                    const std::function<PieceTask()> &makeTask);

} // namespace moert

#endif // MOE_RUNTIME_BASE_PARALLELPIECES_H
