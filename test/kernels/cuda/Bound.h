//===- Bound.h - What bounds a launch on a GPU, from its counters -*- C++ -*-=//
//
// Cycles that a multiprocessor needs at least for its share of each resource,
// were it the only one: what softgpu counts over what the GPU does a cycle. The
// largest is the launch's bound; a kernel that covers one resource's work with
// another's comes near it, none gets below. test/bench/README.md, "Bounds".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_BOUND_H
#define MOE_TEST_KERNELS_CUDA_BOUND_H

#include "test/softgpu/Counters.h"

#include <span>
#include <string_view>

namespace moek::test {

/// Per cycle of a multiprocessor, where nothing else is said.
struct GpuModel {
  std::string_view name;
  int arch, multiprocessors;
  double gigahertz, gigabytes; ///< Boost; of DRAM a second.
  double l2Bytes;              ///< An assumption.
  double int8Macs, halfMacs;   ///< Dense; F16 with F32 sums.
  int floatLanes, integerLanes;
  bool isShared; ///< Integer lanes are half of the float lanes.
};
/// RTX 3090, 4090, 5090, A100, H100.
std::span<const GpuModel> gpuModels();

struct Bound {
  /// Cycles of a multiprocessor. `pipes`: the busiest of float, integer and
  /// special-function lanes, and of shared memory.
  double dram = 0, l2 = 0, mma = 0, issue = 0, pipes = 0;
  double all() const;
  std::string_view name() const;
};
/// `dramBytes`: what the launch touches of memory, once, `l2Bytes`: each of its
/// blocks, once. `isHalf`: its mma are of F16 or BF16, not of int8.
Bound boundOf(const softgpu::Counters &counters, uint64_t dramBytes,
              uint64_t l2Bytes, bool isHalf, const GpuModel &gpu);

/// Warp instructions that take an issue slot: without moves, address-space
/// conversions and loads of parameters, which the assembler folds into others.
uint64_t issued(const softgpu::Counters &counters);

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_BOUND_H
