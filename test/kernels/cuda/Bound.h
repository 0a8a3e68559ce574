//===- Bound.h - Lower bounds of a launch's time from counters --*- C++ -*-===//
//
// For each resource, the cycles that a multiprocessor needs at least for its
// share if that were the only limit: the software GPU's counts divided by the
// GPU's rate per cycle. The largest is the launch's bound. A kernel that
// overlaps the use of resources comes near it; none gets below. See
// test/bench/README.md, "Bounds".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_BOUND_H
#define MOE_TEST_KERNELS_CUDA_BOUND_H

#include "test/softgpu/Counters.h"
#include "test/softgpu/GpuModel.h"

namespace moek::test {

using softgpu::GpuModel;
using softgpu::gpuModels;

struct Bound {
  /// Cycles of a multiprocessor. `pipes`: the busiest of float, integer and
  /// special-function lanes, and of shared memory.
  double dram = 0, l2 = 0, mma = 0, issue = 0, pipes = 0;
  double all() const;
  std::string_view name() const;
};
/// `dramBytes`: the memory that the launch touches, counted once; `l2Bytes`:
/// counted once per block. `isHalf`: its mma are of F16 or BF16, not of int8.
Bound boundOf(const softgpu::Counters &counters, uint64_t dramBytes,
              uint64_t l2Bytes, bool isHalf, const GpuModel &gpu);

/// Warp instructions that take an issue slot: without moves, address-space
/// conversions and parameter loads, which the assembler folds into others.
uint64_t issued(const softgpu::Counters &counters);

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_BOUND_H
