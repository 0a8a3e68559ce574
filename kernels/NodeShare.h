//===- NodeShare.h - Weight rows that a NUMA node reads ---------*- C++ -*-===//
//
// The division of rows between NUMA nodes. Kernels compute with it, and the
// runtime places each node's rows into that node's memory by it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_NODESHARE_H
#define MOE_KERNELS_NODESHARE_H

#include "kernels/Types.h"

namespace moek {

/// Number of weight rows in which work is divided between workers: 16 floats of
/// output fill a cache line.
inline constexpr int64_t kRowGrain = 16;

/// The contiguous range of `count` items that the workers of this worker's NUMA
/// node process. It is the same in every step, so that the node's memory can
/// hold those items.
[[gnu::always_inline]] inline Range nodeShare(int64_t count,
                                              const Worker &worker) {
  int64_t end = worker.nodeEnd ? worker.nodeEnd : worker.count;
  return {count * worker.nodeBegin / worker.count, count * end / worker.count};
}

} // namespace moek

#endif // MOE_KERNELS_NODESHARE_H
