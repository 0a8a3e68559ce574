//===- Ring.h - Caches of layers with a window ------------------*- C++ -*-===//
//
// A layer whose tokens see a window keeps no more of a sequence than its last
// rows: a state (kernels/KvCache.h) of any type, one row after the other in a
// ring of whole pages, in which position p is row p % ring. A ring has room for
// the window and for all rows that a step may append, less one: a step's first
// token finds all that it sees, although the step's rows are all there before
// attention begins.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_RING_H
#define MOE_KERNELS_RING_H

#include "kernels/KvCache.h"

namespace moek {

/// Rows of a ring for tokens that see `window` rows, in steps of at most
/// `tokens` rows of a sequence.
constexpr int64_t kvRingRows(int64_t window, int64_t tokens) {
  return (window + tokens - 1 + kKvPage - 1) / kKvPage * kKvPage;
}

/// Of a view whose rows are rings of rows of `width` elements, makes one of
/// these rows. The result is how many a ring has; 0 where rows of `kv` have
/// that width themselves, as sequences have pages.
inline int32_t splitRings(KvView &kv, int64_t width) {
  if (width < 1 || kv.width <= width)
    return 0;
  int64_t ring = kv.width / width;
  kv = {kv.data, width, kv.capacity * ring, kv.rowStride / ring, kv.type};
  return int32_t(ring);
}

/// A layer's cache as one sequence has it, in pages or in a ring.
struct RingCache : SequenceCache {
  int64_t ring = 0;  ///< Rows; 0: the sequence has pages.
  int64_t begin = 0; ///< Row of the cache at which its ring begins.

  [[gnu::always_inline]] RingCache(const KvView &kv, const int32_t *pages)
      : SequenceCache{kv, pages} {}
  [[gnu::always_inline]] RingCache(const KvView &kv, int32_t ring,
                                   const SequenceRows &rows)
      : SequenceCache{kv, rows.pages}, ring(ring),
        begin(int64_t(rows.state) * ring) {}

  /// The cache's row for `position`.
  [[gnu::always_inline]] int64_t row(int64_t position) const {
    return ring > 0 ? begin + position % ring : SequenceCache::row(position);
  }
};

} // namespace moek

#endif // MOE_KERNELS_RING_H
