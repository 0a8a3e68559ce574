//===- Device.h - What executes a plan's queues -----------------*- C++ -*-===//
//
// A device has memory, and runs the instructions of its queues. What comes to
// it was proved before (runtime/prove/Prove.h); where operands lie, which
// functions run them and how they are started is the device's business. In this
// order:
//
//   reserve        all memory that the plan gives it, before anything is moved
//   load           modules and the weights that are to be in its memory
//   bind           every phase of the plan
//   enqueue, wait  a step, on all devices of the plan at a time
//
// and between steps read, write and copy of what lies in its memory. What
// changes from step to step is a block (StepBlock.h) at one address of its
// memory, so that instructions and their arguments can be recorded once.
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
#include <string_view>

namespace moert {

struct ProvenPhase;

/// Bytes in one of a device's memories.
struct DeviceRegion {
  enum class Memory : uint8_t {
    Arena,
    Kv,
    Worker, ///< The first worker's, of the buffers of which each has a copy.
  };
  Memory memory = Memory::Arena;
  uint64_t offset = 0, bytes = 0;

  bool operator==(const DeviceRegion &) const = default;
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

/// Told now and then how many bytes of how many have come to a device's memory.
using LoadProgress =
    std::function<void(std::string_view device, uint64_t done, uint64_t total)>;

class Device {
public:
  virtual ~Device() = default;

  /// DoesNotFit where there is not that much.
  virtual Status reserve() = 0;
  /// `progress` may be null. WrongMachine where no module of the plan is for
  /// this device.
  virtual Status load(const LoadProgress &progress) = 0;
  /// Prepares its part of the next phase of the plan; phases are numbered in
  /// this order. `arenas` has each device's hostArena(), for copies to and from
  /// it; `events`, null if there are none, are those of all of its steps.
  /// WrongMachine where the device has not what the phase names.
  virtual Status bind(const ProvenPhase &phase,
                      std::span<std::byte *const> arenas,
                      StepEvents *events) = 0;

  /// Gives back what bind() took of other devices, before any of them ends.
  virtual void unbind() {}

  /// Where the host, and so other devices, reach its arena; null where they do
  /// not. From reserve() on.
  virtual std::byte *hostArena() const = 0;
  /// Threads of this process that it computes with.
  virtual int32_t threads() const = 0;
  /// Whether wait() does a share of the work. That of one device at most.
  virtual bool borrowsCaller() const = 0;

  /// Begins its part of a step: waits for events and signals its own as the
  /// plan says. `step`, with all that it points to, is copied into the block.
  /// `control` and what it points to live until wait() returns.
  ///
  /// A device on which something fails gives the step up with events->stop(),
  /// by whichever thread finds out, so that none waits for it for ever. After a
  /// failure here wait() is not called.
  virtual Status enqueue(uint32_t phase, const moek::Step &step,
                         const StepControl &control) = 0;
  /// Ends it. Cancelled where the step was given up: by the flag, or by another
  /// device; else what failed here.
  virtual Status wait() = 0;

  /// Runs one instruction of this device, numbered as in the phase's list, and
  /// nothing else.
  virtual Status runAlone(uint32_t phase, uint32_t instruction,
                          const moek::Step &step,
                          const std::atomic<bool> *cancel) = 0;

  // Between steps. Regions lie in what reserve() reserved.

  /// As the host sees the bytes, until the next call of any of these functions.
  virtual StatusOr<std::span<const std::byte>> read(DeviceRegion from) = 0;
  /// `bytes` has those of the region.
  virtual Status write(DeviceRegion to, std::span<const std::byte> bytes) = 0;
  /// To a region of the same memory and size, which begins at `to`.
  virtual Status copy(DeviceRegion from, uint64_t to) = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICE_H
