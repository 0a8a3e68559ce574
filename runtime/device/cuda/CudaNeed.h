//===- CudaNeed.h - Memory that a plan needs on a GPU -----------*- C++ -*-===//
//
// Computed from the plan, without a GPU: the memory that the device reserves at
// start, and the host memory that is pinned for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H

#include "runtime/plan/Plan.h"

#include <cstdint>

namespace moert {

/// Memory needed, in bytes.
struct CudaNeed {
  uint64_t weights = 0, kv = 0, activations = 0;
  /// Workspace of launches, with the slots of streamed experts.
  uint64_t workspace = 0;
  uint64_t slots = 0; ///< Two slots that streamed experts are copied to.
  uint64_t constants = 0;
  uint64_t steps = 0; ///< Parameters of steps, one block per queue.
  // Host memory that the GPU accesses.
  uint64_t staging = 0; ///< Buffer for reads and writes by the host.
  /// Pages with weights that the GPU copies itself, or reads there because it
  /// shares the host's memory.
  uint64_t mapped = 0;
  uint64_t rings = 0; ///< Rings through which weights are streamed, at most.

  /// Total in the GPU's memory, without that of its driver.
  uint64_t total() const {
    return weights + kv + activations + workspace + constants + steps;
  }
  uint64_t pinned() const { return staging + mapped + rings; }
};

/// Returns the memory that device `device` of the plan, a GPU, needs.
CudaNeed cudaNeed(const fb::Plan &plan, uint32_t device);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H
