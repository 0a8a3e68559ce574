//===- CudaStep.h - A step's parameters as GPU kernels read them -*- C++
//-*-===//
//
// moek::cuda::Step (kernels/cuda/Abi.h) and, behind it, the pages of its
// sequences, in one piece of device memory at an address that stays:
//
//   Step | pages [room.pages]
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H

#include "runtime/device/StepBlock.h"

namespace moert {

/// Of such a piece.
uint64_t cudaStepBytes(StepRoom room);

/// Writes `step`, which has room, to `memory`, for a piece whose first byte has
/// `address` on the device. Returns how many bytes from there on matter.
uint64_t writeCudaStep(const moek::Step &step, StepRoom room, std::byte *memory,
                       uint64_t address);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDASTEP_H
