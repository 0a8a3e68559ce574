//===- Copy.h - Copies between CPU devices ----------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_COPY_H
#define MOE_KERNELS_CPU_COPY_H

#include "kernels/Abi.h"

#include <cstring>

namespace moek {

/// Smallest number of bytes per worker: for less than a page another core does
/// not pay off.
inline constexpr int64_t kCopyGrain = 4096;

template <class S>
void run(const CopyArgs &a, const Step &step, const Worker &worker) {
  Range range =
      shareOf(step.tokens * a.tokenBytes + a.fixedBytes, kCopyGrain, worker);
  if (range.begin < range.end)
    std::memcpy(a.out + range.begin, a.x + range.begin,
                size_t(range.end - range.begin));
}

} // namespace moek

#endif // MOE_KERNELS_CPU_COPY_H
