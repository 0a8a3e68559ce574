//===- CudaStep.h - Step parameters for GPU kernels -------------*- C++ -*-===//
//
// moek::cuda::Step (kernels/cuda/Abi.h) and, after it, the pages of its
// sequences, in one block of device memory at a fixed address:
//
//   Step | pages [room.pages]
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H

#include "runtime/device/StepBlock.h"

namespace moert {

/// Bytes of such a block.
uint64_t cudaStepBytes(StepRoom room);

/// Writes `step`, which must fit in `room`, to `memory`, for a block whose
/// first byte has `address` on the device. Returns the number of bytes written.
uint64_t writeCudaStep(const moek::Step &step, StepRoom room, std::byte *memory,
                       uint64_t address);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H
