//===- CudaLaunches.h - From proven instructions to launches ----*- C++ -*-===//
//
// What a GPU does of a phase: for each of its queues the launches in their
// order, cut into segments where other queues are waited for or told, and how
// that is done. Arguments are final; what changes from step to step is in the
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
#include "runtime/plan/Plan.h"

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace moert {

struct CudaLaunch {
  cu::Function function = nullptr; ///< Null: it sends, see below.
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1, sharedBytes = 0;
  uint32_t instruction = 0; ///< In the phase's list of all queues.
  /// Flags may be waited for in it, and told (kernels/cuda/Fuse.h).
  bool canAwait = false, canTell = false;
  alignas(8) std::array<std::byte, moek::cuda::kMaxArgBytes> args = {};
  /// To the host, for another GPU: all that the largest step would have, as a
  /// graph's copies are of one size.
  std::byte *to = nullptr;
  cu::DevicePointer from = 0;
  uint64_t bytes = 0;
};

/// Launches that nothing outside their queue comes between.
struct CudaSegment {
  std::vector<uint32_t> waits;    ///< Events before the first.
  int32_t signal = -1;            ///< Event after the last, or -1.
  size_t first = 0, count = 0;    ///< In CudaPart::launches.
  CudaOwned<cu::GraphExec> graph; ///< Of them; from its second run on.
};

/// How a part's segments and those of other queues wait for each other, from
/// the second step on; the first that the driver knows.
enum class CudaMeeting : uint8_t {
  /// All segments are one graph, whose nodes write and wait for the events'
  /// flags in memory (StepEvents.h), or where they can its launches
  /// (kernels/cuda/Fuse.h): the host has nothing to do in a step.
  Flags,
  /// The same with functions that the driver calls on a thread of its own, 10
  /// to 30 us each. One may wait behind another's, so not for several queues.
  HostFunctions,
  /// A thread of the host waits, launches a segment's graph, waits for it and
  /// signals.
  Walk,
};

/// What a host function does.
struct CudaHostCall {
  StepEvents *events;
  uint32_t event;
  bool waits;
};

/// One queue's part of a phase.
struct CudaPart {
  std::vector<CudaLaunch> launches;
  std::vector<CudaSegment> segments;
  StepEvents *events = nullptr; ///< Null: nothing is waited for, or told.
  cu::DevicePointer board = 0;  ///< Of `events`, on the device.
  CudaMeeting meeting = CudaMeeting::Flags;
  bool isOnly = true;             ///< The phase has no other GPU's queue.
  CudaOwned<cu::GraphExec> graph; ///< Of all segments.
  std::vector<std::unique_ptr<CudaHostCall>> calls; ///< The graph's.
  /// Ran once, so that the driver has everything that a capture may not load.
  bool ran = false;
};

/// By queue of the plan.
using CudaPhase = std::map<uint32_t, CudaPart>;

/// What device number `device` does of `phase`, whose memory is `memory` and
/// whose steps have `events` (may be null), with a board at `board` on the GPU.
/// Allows functions the shared memory that they are launched with. InvalidFile
/// where the plan's launches are not those of this moert, WrongMachine where an
/// operand is out of reach; both name phase and instruction.
StatusOr<CudaPhase> bindCudaPhase(const CudaDriver &driver, const Plan &plan,
                                  const ProvenPhase &phase, uint32_t device,
                                  const CudaMemory &memory,
                                  const CudaWeights &weights,
                                  const CudaModules &modules,
                                  const CudaLinks &links, StepEvents *events,
                                  cu::DevicePointer board);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDALAUNCHES_H
