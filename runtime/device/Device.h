//===- Device.h - Executes the queues of a plan -----------------*- C++ -*-===//
//
// A device has memory and runs the instructions of its queues. All instructions
// were proved sound before (runtime/prove/Prove.h). The device decides where
// operands lie, which functions to call and how to launch them. Its functions
// are called in this order:
//
//   reserve        allocates all memory that the plan assigns to the device
//   load           loads modules, and the weights that lie in its memory
//   bind           prepares one phase; called for every phase of the plan
//   prepare, enqueue, wait
//                  run a step, on all devices of the plan at the same time
//
// Between steps, read, write and copy access its memory. All that changes from
// step to step is in a block (StepBlock.h) at a fixed address of its memory, so
// instructions and their arguments can be recorded once.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_DEVICE_H
#define MOE_RUNTIME_DEVICE_DEVICE_H

#include "kernels/Types.h"
#include "runtime/base/Status.h"
#include "runtime/device/StepEvents.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace moert {

struct ProvenPhase;

/// A range of bytes in one of a device's memories.
struct DeviceRegion {
  enum class Memory : uint8_t {
    Arena,
    Kv,
    /// Memory of the first worker, for buffers of which each worker has a copy.
    Worker,
  };
  Memory memory = Memory::Arena;
  uint64_t offset = 0, bytes = 0;

  bool operator==(const DeviceRegion &) const = default;
};

/// Seconds that one worker spent in one instruction.
struct InstructionTime {
  /// Waiting at the barrier and for events before the instruction.
  double wait = 0;
  double run = 0; ///< Time in which the worker does its share.
};

/// The data of a step that all devices share.
struct StepControl {
  StepEvents *events = nullptr; ///< Null if the phase has no events.
  const std::atomic<bool> *cancel = nullptr; ///< May be null.
  /// One entry per instruction of the phase; empty if times are not wanted.
  std::span<InstructionTime> times = {};
};

/// Receives, now and then, the number of bytes loaded to a device and their
/// total.
using LoadProgress =
    std::function<void(std::string_view device, uint64_t done, uint64_t total)>;

class Device {
public:
  virtual ~Device() = default;

  /// Allocates the device's memory. Fails with DoesNotFit if there is too
  /// little.
  virtual Status reserve() = 0;
  /// Loads modules and weights. `progress` may be null. Fails with WrongMachine
  /// if the plan has no module for this device.
  virtual Status load(const LoadProgress &progress) = 0;
  /// Prepares this device's instructions of a phase. Phases are numbered in the
  /// order of these calls. `arenas` has the hostArena() of each device, for
  /// copies between devices. `events`, null if the phase has none, are those of
  /// all its steps. Fails with WrongMachine if the device lacks something that
  /// the phase names.
  virtual Status bind(const ProvenPhase &phase,
                      std::span<std::byte *const> arenas,
                      StepEvents *events) = 0;

  /// Releases what bind() took from other devices, before any device is
  /// destroyed.
  virtual void unbind() {}

  /// Returns the address at which the host, and so other devices, can access
  /// the device's arena, or null if they cannot. Valid after reserve().
  virtual std::byte *hostArena() const = 0;
  /// What its maker calls a GPU, for reports; "" for a CPU. Valid after
  /// reserve().
  virtual std::string hardware() const { return ""; }
  /// Number of threads of this process that compute for the device.
  virtual int32_t threads() const = 0;
  /// Number of these threads that computed in the last step, or will in the
  /// first one.
  virtual int32_t team() const { return threads(); }
  /// Returns whether the thread that calls wait() works as one of the device's
  /// threads. True for at most one device.
  virtual bool borrowsCaller() const = 0;

  /// Does what must be done before any device begins this step, and is only
  /// once: a driver may hold all work up meanwhile. Called for all devices
  /// before enqueue() is called for one.
  virtual Status prepare(uint32_t /*phase*/, const moek::Step & /*step*/,
                         const StepControl & /*control*/) {
    return Status::ok();
  }

  /// Begins this device's part of a step: it waits for events and signals its
  /// own as the plan says. `step`, with all that it points to, is copied into
  /// the step block. `control` and what it points to must live until wait()
  /// returns.
  ///
  /// If something fails on a device, the thread that finds out calls
  /// events->stop(), so that no other device waits for ever. If enqueue()
  /// fails, wait() must not be called.
  virtual Status enqueue(uint32_t phase, const moek::Step &step,
                         const StepControl &control) = 0;
  /// Waits for the end of this device's part of the step. Returns Cancelled if
  /// the step was abandoned because of the cancel flag or another device;
  /// otherwise the error of this device.
  virtual Status wait() = 0;

  /// Runs a single instruction of this device; `instruction` is its index in
  /// the phase's list.
  virtual Status runAlone(uint32_t phase, uint32_t instruction,
                          const moek::Step &step,
                          const std::atomic<bool> *cancel) = 0;

  // The following functions may be called between steps. Regions lie in memory
  // that reserve() allocated.

  /// Returns the bytes in host memory; valid until the next call of any
  /// function.
  virtual StatusOr<std::span<const std::byte>> read(DeviceRegion from) = 0;
  /// Writes `bytes`, which has the size of the region.
  virtual Status write(DeviceRegion to, std::span<const std::byte> bytes) = 0;
  /// Copies to the region of the same memory and size that begins at `to`.
  virtual Status copy(DeviceRegion from, uint64_t to) = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICE_H
