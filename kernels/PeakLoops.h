//===- PeakLoops.h - The loops of Peak.h, per instruction set ---*- C++ -*-===//

#ifndef MOE_KERNELS_PEAKLOOPS_H
#define MOE_KERNELS_PEAKLOOPS_H

#include <cstddef>
#include <cstdint>

namespace moek {

/// The functions of Peak.h for one instruction set.
struct PeakLoops {
  double (*int8)(int64_t iterations);
  double (*floating)(int64_t iterations);
  double (*bf16)(int64_t iterations); ///< Null if the set has none.
  uint64_t (*read)(const std::byte *data, size_t bytes);
};

extern const PeakLoops kPeakRef;
#if defined(__x86_64__)
extern const PeakLoops kPeakAvx2;
extern const PeakLoops kPeakAvx512;
/// There are loops for int8 and bf16 only; those for AVX-512 measure the rest.
extern const PeakLoops kPeakAmx;
#endif

} // namespace moek

#endif // MOE_KERNELS_PEAKLOOPS_H
