//===- NodePieces.h - Ranges of memory that threads fill --------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_NODEPIECES_H
#define MOE_RUNTIME_BASE_NODEPIECES_H

#include "runtime/base/ContentHash.h"
#include "runtime/base/ParallelPieces.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moert {

/// A range of bytes in a file that only workers on one memory node read.
struct NodeBytes {
  uint64_t begin, end;
  int node;

  bool operator==(const NodeBytes &) const = default;
};

/// Sorts extents and unites those that overlap or touch.
std::vector<Extent> united(std::vector<Extent> extents);

/// The places that are filled, and how.
struct NodePlaces {
  /// Ascending and disjoint; they go to the memory of their nodes.
  std::span<const NodeBytes> parts = {};
  /// Called with the node of a part before memory of it is touched, on the
  /// thread that does it, and with -1 after that. Not called without parts.
  std::function<void(int node)> prefer = {};
};

/// Fills the extents (ascending and disjoint) from a disk with all threads, in
/// pieces of at most `most` bytes that end at its multiples. `makeFill` is called once for
/// each thread and returns what fills bytes begin ... end - 1.
Status fillPieces(
    std::span<const Extent> extents, const NodePlaces &places, uint64_t most,
    const PiecesOptions &options,
    const std::function<std::function<Status(uint64_t begin, uint64_t end)>()>
        &makeFill);

} // namespace moert

#endif // MOE_RUNTIME_BASE_NODEPIECES_H
