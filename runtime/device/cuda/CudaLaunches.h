//===- CudaLaunches.h - Turns instructions into launches --------*- C++ -*-===//
//
// A GPU's part of a phase: the launches of each of its queues in their order.
// They are cut into segments where the queue waits for other queues or signals
// them. Arguments are final; all that changes from step to step is in the
// device's memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H

#include "kernels/cuda/Launch.h"
#include "runtime/device/StepEvents.h"
#include "runtime/device/cuda/CudaLinks.h"
#include "runtime/device/cuda/CudaModules.h"
#include "runtime/device/cuda/CudaOperands.h"
#include "runtime/device/cuda/CudaSync.h"
#include "runtime/plan/Plan.h"

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace moert {

struct CudaLaunch {
  cu::Function function = nullptr; ///< Null: a copy to the host, see below.
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1, sharedBytes = 0;
  uint32_t instruction = 0; ///< Index in the phase's list, with all queues.
  /// Whether the launch itself can wait for flags and set them
  /// (kernels/cuda/Fuse.h).
  bool canAwait = false, canSignal = false;
  /// Whether it can bring weights of later launches into L2 (canPrefetch());
  /// the weights that it reads whatever the step is; and the most bytes of
  /// other weights (experts') that it reads.
  bool canPrefetch = false;
  std::vector<moek::cuda::Prefetch> weights;
  uint64_t otherBytes = 0;
  /// Whether its code waits for the launch before it by itself, so that it may
  /// begin while that ends (kernels/cuda/LaunchOrder.cuh).
  bool awaitsLaunch = false;
  alignas(8) std::array<std::byte, moek::cuda::kMaxArgBytes> args = {};
  /// Copies through the queue's ring that come before the launch, and whether
  /// they are the instruction's first (kernels/cuda/Launch.h).
  size_t copies = 0;
  bool copiesFirst = false;
  /// A copy to the host, for another GPU, of `bytes` bytes. The size is that of
  /// the largest step, because copies in a graph have a fixed size.
  std::byte *to = nullptr;
  cu::DevicePointer from = 0;
  uint64_t bytes = 0;
};

/// Consecutive launches of a queue without waits or signals between them.
struct CudaSegment {
  std::vector<uint32_t> waits; ///< Events to wait for before the first launch.
  int32_t signal = -1; ///< Event to signal after the last launch, or -1.
  size_t first = 0, count = 0; ///< Range in CudaPart::launches.
  /// Graph of the launches, from the second run on.
  CudaOwned<cu::GraphExec> graph;
  bool isRefused = false; ///< The driver does not make a graph of them.
};

/// Arguments of a host function.
struct CudaHostCall {
  StepEvents *events;
  uint32_t event;
  bool waits;
};

/// A queue's part of a phase.
struct CudaPart {
  std::vector<CudaLaunch> launches;
  std::vector<CudaSegment> segments;
  /// The copies through the ring, of all launches.
  std::vector<moek::cuda::HostCopy> copies;
  StepEvents *events = nullptr; ///< Null: no event is waited for or signalled.
  cu::DevicePointer board = 0;  ///< The board of `events`, on the device.
  CudaSync sync = CudaSync::Flags;
  bool isOnly = true; ///< No other GPU's queue takes part in the phase.
  /// A launch may wait for the host: the driver lets kernels run for long.
  bool launchesMayWait = true;
  CudaOwned<cu::GraphExec> graph; ///< Graph of all segments.
  bool isWalked = false;          ///< There will be no such graph.
  std::vector<std::unique_ptr<CudaHostCall>> calls; ///< Calls in the graph.
  /// True after the first run: the driver has then loaded all that it cannot
  /// load during a capture.
  bool ran = false;
};

/// The parts of a phase by the plan's queue number.
using CudaPhase = std::map<uint32_t, CudaPart>;

/// Returns the launches of device number `device` in `phase`. `memory` is the
/// device's memory; `events` (may be null) belong to the phase's steps, and
/// their board is at address `board` on the GPU. Raises functions' limits of
/// shared memory where launches need it. Fails with InvalidFile if the plan's
/// launches differ from those that this moert computes, and with WrongMachine
/// if an operand is not accessible; errors name phase and instruction.
StatusOr<CudaPhase> bindCudaPhase(const CudaDriver &driver, const Plan &plan,
                                  const ProvenPhase &phase, uint32_t device,
                                  const CudaMemory &memory,
                                  const CudaWeights &weights,
                                  const CudaModules &modules,
                                  const CudaLinks &links, StepEvents *events,
                                  cu::DevicePointer board);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H
