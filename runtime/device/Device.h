//===- Device.h - What executes a plan's queues -----------------*- C++ -*-===//
//
// A device has memory, and runs the instructions of its queues. It is created
// with what the plan reserves there; then every phase is bound once; then steps
// are enqueued on all devices of the plan and waited for, one at a time.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_DEVICE_H
#define MOE_RUNTIME_DEVICE_DEVICE_H

#include "kernels/Abi.h"
#include "runtime/base/Status.h"
#include "runtime/device/StepEvents.h"

#include <atomic>
#include <cstddef>
#include <span>

namespace moert {

struct ProvenPhase;

/// Memory of one CPU device, each at least as large as the plan says.
struct DeviceMemory {
  std::byte *arena = nullptr;
  std::byte *kv = nullptr;
  /// Of each worker, for the buffers of which each has a copy. Binding to more
  /// or fewer workers than will run the phase is an error of the caller.
  std::span<std::byte *const> workers = {};
};

/// One worker's seconds in one instruction.
struct InstructionTime {
  double wait = 0; ///< At the barrier, and for events, before it.
  double run = 0;  ///< In its share of the work.
};

/// What the devices share in a step.
struct StepControl {
  StepEvents *events = nullptr;              ///< Null: the phase has none.
  const std::atomic<bool> *cancel = nullptr; ///< May be null.
  /// By instruction of the phase; empty: not asked for.
  std::span<InstructionTime> times = {};
};

class Device {
public:
  virtual ~Device() = default;

  /// Its memory as the host reaches it; nulls where the host does not.
  virtual DeviceMemory hostMemory() const = 0;

  /// Prepares its part of the next phase of the plan; phases are numbered in
  /// this order. `memories` has all devices' memory. WrongMachine where it has
  /// not what the phase names.
  virtual Status bind(const ProvenPhase &phase,
                      std::span<const DeviceMemory> memories) = 0;

  /// Begins its part of a step. What changes from step to step, `step`, is then
  /// in memory of the device. `control` and what it points to live until wait()
  /// returns.
  virtual void enqueue(uint32_t phase, const moek::Step &step,
                       const StepControl &control) = 0;
  /// Ends it; may be where the caller's thread does a share. Cancelled where
  /// the step was given up here.
  virtual Status wait() = 0;

  /// Runs one instruction of this device, numbered as in the phase's list, and
  /// nothing else.
  virtual Status runAlone(uint32_t phase, uint32_t instruction,
                          const moek::Step &step,
                          const std::atomic<bool> *cancel) = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICE_H
