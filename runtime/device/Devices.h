//===- Devices.h - All devices of a plan ------------------------*- C++ -*-===//
//
// Proves a plan's phases, brings them to its devices, and runs steps: every
// device walks its queues, events of the phase order them. Which kinds of
// devices they are is not known here.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_DEVICES_H
#define MOE_RUNTIME_DEVICE_DEVICES_H

#include "runtime/device/Device.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"

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
  std::string name;
  int32_t minTokens = 0, maxTokens = 0;
  uint32_t number = 0;     ///< In the plan.
  size_t instructions = 0; ///< How many.
};

/// Where a buffer lies in its device's memory, as large as it is in a step of
/// `tokens`.
DeviceRegion regionOf(const fb::Buffer &buffer, int64_t tokens);

class Devices {
public:
  /// Of a plan that passed checkMachine(), which outlives this as `files` does;
  /// `devices` are as makeDevices() makes them. Fails as provePlan() does,
  /// before anything is reserved, and as devices do.
  static StatusOr<std::unique_ptr<Devices>>
  create(const Plan &plan, const WeightFiles &files,
         std::vector<std::unique_ptr<Device>> devices,
         const LoadProgress &progress = {});
  ~Devices();

  std::span<const RunnablePhase> phases() const { return phases_; }

  /// The first rows of the phase's input: I32 tokens, or F32 hidden rows.
  Status setInput(const RunnablePhase &phase, std::span<const std::byte> rows);

  /// Runs one step. `step` is within the phase's token range. Cancelled when
  /// `cancel` (may be null) was set before the last barrier: the phase's
  /// buffers are then undefined; likewise where a device fails, with its
  /// status. `times`, when not empty, has one entry per instruction, to which
  /// the time of its device's first worker in it is added.
  Status run(const RunnablePhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {});

  /// The first rows of what a step of `tokens` left in the phase's output:
  /// hidden rows [T, D], or logits [T, vocab]. Valid until the next call.
  StatusOr<std::span<const float>> output(const RunnablePhase &phase,
                                          int32_t tokens);

  /// Runs one instruction of the phase, to look at what it does.
  Status runAlone(const RunnablePhase &phase, uint32_t instruction,
                  const moek::Step &step, const std::atomic<bool> *cancel);

  /// Of all devices: Device::threads().
  int32_t threads() const;
  Device &device(uint32_t number) const { return *devices_[number]; }

private:
  Devices(const Plan &plan, std::vector<std::unique_ptr<Device>> devices)
      : plan_(plan), devices_(std::move(devices)) {}
  const fb::Phase &table(const RunnablePhase &phase) const;

  const Plan &plan_;
  std::vector<std::unique_ptr<Device>> devices_;
  /// In the order in which steps begin on them, and the other way round in
  /// which they are waited for: the one that borrows this thread is last, as
  /// the others need no help.
  std::vector<Device *> order_;
  std::vector<RunnablePhase> phases_;
  std::vector<std::unique_ptr<StepEvents>> events_; ///< By phase; may be null.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_DEVICES_H
