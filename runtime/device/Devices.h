//===- Devices.h - All devices of a plan ------------------------*- C++ -*-===//
//
// Proves the phases of a plan, prepares its devices for them, and runs steps.
// In a step every device runs its own queues; the events of the phase order
// them. This code does not know which kinds of devices exist.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_DEVICES_H
#define MOE_RUNTIME_DEVICE_DEVICES_H

#include "runtime/device/Device.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/PhaseKind.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert {

namespace fb {
struct Buffer;
struct Phase;
} // namespace fb

/// A phase that is ready to run.
struct RunnablePhase {
  PhaseKind kind = PhaseKind::Decode;
  int32_t minTokens = 0, maxTokens = 0;
  /// Whether the phase ends with logits instead of hidden states.
  bool endsWithLogits = false;
  uint32_t number = 0;     ///< Index in the plan.
  size_t instructions = 0; ///< Number of instructions.
};

/// Returns the memory region that a buffer occupies in a step of `tokens`.
DeviceRegion regionOf(const fb::Buffer &buffer, int64_t tokens);

class Devices {
public:
  /// Takes `devices` as returned by makeDevices(). `plan` must have passed
  /// checkMachine(); it and `files` must outlive the result. Returns the errors
  /// of provePlan(), before any memory is reserved, and those of devices.
  static StatusOr<std::unique_ptr<Devices>>
  create(const Plan &plan, const WeightFiles &files,
         std::vector<std::unique_ptr<Device>> devices,
         const LoadProgress &progress = {});
  ~Devices();

  std::span<const RunnablePhase> phases() const { return phases_; }

  /// Writes the first rows of the phase's input: I32 tokens or F32 hidden rows.
  Status setInput(const RunnablePhase &phase, std::span<const std::byte> rows);
  /// Writes the first F32 rows of the hidden states that Draft reads too.
  Status setHidden(const RunnablePhase &phase, std::span<const float> rows);

  /// Runs one step. `step` must be within the phase's token range. Returns
  /// Cancelled if `cancel` (may be null) was set before the last barrier, or
  /// the error of a device; the phase's buffers are then undefined. `times`, if
  /// not empty, has one entry per instruction; the time that the first worker
  /// of the instruction's device spent in it is added.
  Status run(const RunnablePhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {});

  /// Returns the first rows of the phase's output after a step of `tokens`:
  /// hidden rows [T, D] or logits [T, vocab]. Valid until the next call.
  StatusOr<std::span<const float>> output(const RunnablePhase &phase,
                                          int32_t tokens);

  /// Runs one instruction of the phase, so that its effect can be examined.
  Status runAlone(const RunnablePhase &phase, uint32_t instruction,
                  const moek::Step &step, const std::atomic<bool> *cancel);

  /// Returns the sum of Device::threads() over all devices.
  int32_t threads() const;
  /// Returns the sum of Device::team().
  int32_t team() const;
  Device &device(uint32_t number) const { return *devices_[number]; }

private:
  Devices(const Plan &plan, std::vector<std::unique_ptr<Device>> devices)
      : plan_(plan), devices_(std::move(devices)) {}
  const fb::Phase &table(const RunnablePhase &phase) const;
  Status write(const RunnablePhase &phase, uint32_t buffer,
               std::span<const std::byte> rows);

  const Plan &plan_;
  std::vector<std::unique_ptr<Device>> devices_;
  /// The devices in the order in which a step begins on them. They are waited
  /// for in reverse order: the device that needs the calling thread is last
  /// here, so wait() is called on it first.
  std::vector<Device *> order_;
  std::vector<RunnablePhase> phases_;
  /// One entry per phase; null if it has no events.
  std::vector<std::unique_ptr<StepEvents>> events_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICES_H
