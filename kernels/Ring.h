//===- Ring.h - KV caches of layers with a sliding window -------*- C++ -*-===//
//
// A layer whose tokens see a window keeps only the last rows of a sequence.
// They are a state (kernels/KvCache.h) of any type: a ring of whole pages, row
// after row, in which position p is row p % ring. A ring has room for the
// window and for all rows that a step may append, minus one. All rows of a step
// are stored before attention begins, and the step's first token must still
// find all that it sees.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_RING_H
#define MOE_KERNELS_RING_H

#include "kernels/KvCache.h"

namespace moek {

/// Number of rows in a ring for tokens that see `window` rows, if a step
/// appends at most `tokens` rows to a sequence.
constexpr int64_t kvRingRows(int64_t window, int64_t tokens) {
  return (window + tokens - 1 + kKvPage - 1) / kKvPage * kKvPage;
}

/// Changes a view whose rows are whole rings into one whose rows have `width`
/// elements. Returns the number of rows in a ring, or 0 if the rows of `kv`
/// have that width already, because its sequences have pages.
inline int32_t splitRings(KvView &kv, int64_t width) {
  if (width < 1 || kv.width <= width)
    return 0;
  int64_t ring = kv.width / width;
  kv = {kv.data, width, kv.capacity * ring, kv.rowStride / ring, kv.type};
  return int32_t(ring);
}

/// A layer's cache as seen by one sequence, in pages or in a ring.
struct RingCache : SequenceCache {
  int64_t ring = 0;  ///< Number of rows in the ring; 0: the cache has pages.
  int64_t begin = 0; ///< Row of the cache at which this sequence's ring begins.

  [[gnu::always_inline]] RingCache(const KvView &kv, const int32_t *pages)
      : SequenceCache{kv, pages} {}
  [[gnu::always_inline]] RingCache(const KvView &kv, int32_t ring,
                                   const SequenceRows &rows)
      : SequenceCache{kv, rows.pages}, ring(ring),
        begin(int64_t(rows.state) * ring) {}

  /// Returns the row of the cache that holds `position`.
  [[gnu::always_inline]] int64_t row(int64_t position) const {
    return ring > 0 ? begin + position % ring : SequenceCache::row(position);
  }
};

} // namespace moek

#endif // MOE_KERNELS_RING_H
