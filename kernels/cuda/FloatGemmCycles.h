//===- FloatGemmCycles.h - What rows of files cost a GPU --------*- C++ -*-===//
//
// FloatGemm.cu takes weights apart element by element, and again for every
// eight rows of activations. That takes longer than memory brings them: what
// software counts (test/kernels/cuda/EfficiencyTest.cpp) is here for
// predictions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H
#define MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H

#include "kernels/quant/Format.h"

namespace moek::cuda {

/// Instructions that a multiprocessor does in a cycle, each for one lane.
inline constexpr int kLanes = 128;

/// Cycles of a lane for an element of weights and `rows` rows: taking it apart,
/// which is most where blocks have blocks with scales of their own, and a
/// multiply-add and a load for each row.
inline double floatGemmCycles(Format format, double rows) {
  struct Cycles {
    double one, eight;
  };
  uint32_t block = formatInfo(format).blockElements;
  Cycles cycles = block == 1    ? Cycles{26, 56}
                  : block <= 32 ? Cycles{21, 75}
                                : Cycles{75, 160};
  if (rows >= 8)
    return rows / 8 * cycles.eight;
  return cycles.one +
         (cycles.eight - cycles.one) / 7 * (rows > 1 ? rows - 1 : 0);
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_FLOATGEMMCYCLES_H
