//===- CudaLaunches.h - From proven instructions to launches ----*- C++ -*-===//
//
// What a GPU does of a phase: for each of its queues the launches in their
// order, cut into segments where other queues are waited for or told. Arguments
// are final; what changes from step to step is in the device's memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H

#include "kernels/cuda/Launch.h"
#include "runtime/Plan.h"
#include "runtime/device/cuda/CudaModules.h"
#include "runtime/device/cuda/CudaOperands.h"

#include <array>
#include <map>
#include <vector>

namespace moert {

struct CudaLaunch {
  cu::Function function = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1, sharedBytes = 0;
  uint32_t instruction = 0; ///< In the phase's list of all queues.
  alignas(8) std::array<std::byte, moek::cuda::kMaxArgBytes> args = {};
};

/// Launches that nothing outside their queue comes between.
struct CudaSegment {
  std::vector<uint32_t> waits;    ///< Events before the first.
  int32_t signal = -1;            ///< Event after the last, or -1.
  size_t first = 0, count = 0;    ///< In CudaPart::launches.
  CudaOwned<cu::GraphExec> graph; ///< Of them; from its second run on.
};

/// One queue's part of a phase.
struct CudaPart {
  std::vector<CudaLaunch> launches;
  std::vector<CudaSegment> segments;
  bool hasEvents = false;
  /// Ran once, so that the driver has everything that a capture may not load.
  bool ran = false;
};

/// By queue of the plan.
using CudaPhase = std::map<uint32_t, CudaPart>;

/// What device number `device` does of `phase`, whose memory is `memory`.
/// Allows functions the shared memory that they are launched with. InvalidFile
/// where the plan's launches are not those of this moert, WrongMachine where an
/// operand is out of reach; both name phase and instruction.
StatusOr<CudaPhase> bindCudaPhase(const CudaDriver &driver, const Plan &plan,
                                  const ProvenPhase &phase, uint32_t device,
                                  const CudaMemory &memory,
                                  const CudaWeights &weights,
                                  const CudaModules &modules);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H
