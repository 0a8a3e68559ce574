//===- CudaNeed.h - The memory that a GPU of a plan takes -------*- C++ -*-===//
//
// What a plan says of it, without a GPU: what its device reserves at start, and
// what of the host's memory is pinned for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H

#include "runtime/plan/Plan.h"

#include <cstdint>

namespace moert {

/// In bytes.
struct CudaNeed {
  uint64_t weights = 0, kv = 0, activations = 0;
  uint64_t workspace = 0; ///< Of launches, slots of experts included.
  uint64_t slots = 0;     ///< What streamed experts come to, two of them.
  uint64_t constants = 0;
  uint64_t steps = 0; ///< Steps' parameters, of each queue.
  // Of the host's memory, which the GPU reaches.
  uint64_t staging = 0;  ///< For what the host reads and writes.
  uint64_t streamed = 0; ///< Private pages of experts that are streamed.

  /// Of the GPU's memory, beside its driver's.
  uint64_t total() const {
    return weights + kv + activations + workspace + constants + steps;
  }
  uint64_t pinned() const { return staging + streamed; }
};

/// Of device `device` of the plan, which is a GPU.
CudaNeed cudaNeed(const fb::Plan &plan, uint32_t device);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDANEED_H
