//===- ParallelPieces.h - Distributes pieces of work on threads -*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PARALLELPIECES_H
#define MOE_RUNTIME_BASE_PARALLELPIECES_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace moert {

struct PiecesOptions {
  int threads = 0; ///< 0: one per core.
  /// Called on the calling thread after each of its pieces and at the end, with
  /// the bytes done so far and the total; returning false cancels. May be
  /// empty.
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
  /// Pieces wait for a disk: without a number of threads there are more than
  /// cores, so that some work while others wait.
  bool waits = false;
};

/// Processes piece `index` and returns its bytes.
using PieceTask = std::function<StatusOr<uint64_t>(size_t index)>;

/// Runs a task for each of `count` pieces with `total` bytes. Every thread
/// calls `makeTask` once for its own task, which may own buffers. Returns the
/// error of the first task that fails, or Cancelled.
Status forEachPiece(size_t count, uint64_t total, const PiecesOptions &options,
                    const std::function<PieceTask()> &makeTask);

} // namespace moert

#endif // MOE_RUNTIME_BASE_PARALLELPIECES_H
