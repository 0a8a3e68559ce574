//===- NodeShare.h - Which rows of a weight a memory node reads -*- C++ -*-===//
//
// What drivers and the runtime, which puts those rows into that node's memory,
// agree on.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_NODESHARE_H
#define MOE_KERNELS_NODESHARE_H

#include "kernels/Types.h"

namespace moek {

/// Weight rows that workers share out: 16 floats of output are a cache line.
inline constexpr int64_t kRowGrain = 16;

/// The contiguous part of `count` items that this worker's node does: the same
/// in every step, so that its memory can hold that part.
[[gnu::always_inline]] inline Range nodeShare(int64_t count,
                                              const Worker &worker) {
  int64_t end = worker.nodeEnd ? worker.nodeEnd : worker.count;
  return {count * worker.nodeBegin / worker.count, count * end / worker.count};
}

} // namespace moek

#endif // MOE_KERNELS_NODESHARE_H
