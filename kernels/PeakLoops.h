//===- PeakLoops.h - The loops of Peak.h, per instruction set ---*- C++ -*-===//

#ifndef MOE_KERNELS_PEAKLOOPS_H
#define MOE_KERNELS_PEAKLOOPS_H

#include "kernels/quant/Format.h"

#include <cstddef>
#include <cstdint>

namespace moek {

/// The functions of Peak.h for one instruction set. Where one is null, that of
/// its base measures it.
struct PeakLoops {
  double (*int8)(int64_t iterations);
  double (*floating)(int64_t iterations);
  double (*bf16)(int64_t iterations);
  uint64_t (*read)(const std::byte *data, size_t bytes);
  /// The loop of a format's products, where they take more than int8's.
  double (*products)(Format format, int64_t iterations) = nullptr;
};

extern const PeakLoops kPeakRef;
#if defined(__x86_64__)
extern const PeakLoops kPeakAvx2;
extern const PeakLoops kPeakAvxVnni;
extern const PeakLoops kPeakAvx512;
extern const PeakLoops kPeakAmx;
#elif defined(__aarch64__)
extern const PeakLoops kPeakNeon;
extern const PeakLoops kPeakNeonI8mm;
#endif

} // namespace moek

#endif // MOE_KERNELS_PEAKLOOPS_H
