//===- FloatGemmCycles.h - GPU cycles of FloatGemm.cu -----------*- C++ -*-===//
//
// HalfGemm.cu multiplies many rows with weights of floats by tensor cores. For
// everything else in the layout of files, FloatGemm.cu decodes weights element
// by element, and again for every eight rows of activations. That takes longer
// than memory delivers them. The instruction counts that the software GPU
// measured (test/kernels/cuda/EfficiencyTest.cpp) are here for predictions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H
#define MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H

#include "kernels/quant/Format.h"

namespace moek::cuda {

/// Up to this number of rows of activations, memory bounds a product.
inline constexpr int64_t kFewRows = 8;

/// Number of mma of 16-bit floats that HalfGemm.cu does for a product of
/// `rows` rows per matrix; 0: FloatGemm.cu does it.
inline int halfProducts(Format format, double rows, int arch) {
  if (arch < 80 || rows <= kFewRows)
    return 0;
  return format == Format::F32                             ? 6
         : format == Format::F16 || format == Format::BF16 ? 1
                                                           : 0;
}

/// Instructions that a multiprocessor executes per cycle, each for one lane.
inline constexpr int kLanes = 128;

/// Lane cycles per element of weights, for `rows` rows: decoding it, which
/// takes most for formats with sub-blocks, and a multiply-add and a load per
/// row.
inline double floatGemmCycles(Format format, double rows) {
  struct Cycles {
    double one, eight;
  };
  uint32_t block = formatInfo(format).blockElements;
  // Q4_K is decoded eight elements at a time.
  Cycles cycles = format == Format::Q4_K ? Cycles{25, 37}
                  : block == 1           ? Cycles{40, 70}
                  : block <= 32          ? Cycles{21, 75}
                                         : Cycles{75, 160};
  if (rows >= 8)
    return rows / 8 * cycles.eight;
  return cycles.one +
         (cycles.eight - cycles.one) / 7 * (rows > 1 ? rows - 1 : 0);
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H
