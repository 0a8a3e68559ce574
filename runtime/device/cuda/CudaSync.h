//===- CudaSync.h - How a GPU waits for other devices -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDASYNC_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDASYNC_H

#include "runtime/device/cuda/RingShape.h"

#include <cstdint>
#include <functional>
#include <string>

namespace moert {

/// How a queue's segments synchronise with other queues from the second step
/// on. If the driver fails to do it in one way, the next is used.
enum class CudaSync : uint8_t {
  /// All segments are one graph. Its nodes, or its launches if they can
  /// (kernels/cuda/Fuse.h), write the events' flags in memory and wait for them
  /// (StepEvents.h). The host does nothing during a step.
  Flags,
  /// As Flags, but the graph calls host functions on a thread of the driver, 10
  /// to 30 us each. One call may wait behind another queue's, so this does not
  /// work with several queues.
  HostFunctions,
  /// A host thread waits for events, launches a segment's graph, waits for its
  /// end and signals its event.
  Walk,
};

struct CudaOptions {
  CudaSync sync = CudaSync::Flags; ///< The first way that is tried.
  /// A launch may begin while the one before ends: the driver can do it.
  bool overlapsLaunches = false;
  /// Launches bring weights of later ones into L2 (CudaPrefetch.h).
  bool prefetches = true;
  /// The most bytes of the rings of all queues together; tests use less.
  uint64_t mostRingBytes = kMostRingBytes;
  /// Receives notes for the user, such as why another way is used; may be null.
  /// Called between steps or before any device begins one.
  std::function<void(const std::string &)> note = {};
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDASYNC_H
