//===- Devices.h - All devices of a plan ------------------------*- C++ -*-===//
//
// Creates the devices that a plan names, binds its phases to them, and runs
// steps: every device walks its queues, events of the phase order them. CPU
// devices share the machine's cores: never more workers than cores, but one at
// least for each.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICES_H
#define MOE_RUNTIME_DEVICES_H

#include "runtime/device/cpu/CpuDevice.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert {

struct DevicesOptions {
  int threads = 1; ///< Of all CPU devices.
  /// By worker of all CPU devices; see CpuDeviceOptions.
  std::vector<int> cpus, nodes;
  /// See CpuDeviceOptions.
  std::function<void(BoundInstruction &, ArgumentStore &)> instrument;
};

/// A phase that is ready to run.
struct RunnablePhase {
  std::string name;
  int32_t minTokens = 0, maxTokens = 0;
  std::byte *input = nullptr; ///< I32 tokens [T], or F32 hidden rows [T, D].
  float *output = nullptr;    ///< Hidden rows [T, D], or logits [T, vocab].
  uint32_t number = 0;        ///< In the plan.
  size_t instructions = 0;    ///< How many.
};

/// The workers of each device, if `threads` are shared out in the ratio of the
/// devices' cores: at least one each.
std::vector<int32_t> teamsOf(const fb::Plan &plan, int threads);

/// What is listed by worker of all devices, by device; those for whom the list
/// has nothing get nothing.
std::vector<std::vector<int>> byDevice(std::span<const int32_t> teams,
                                       std::span<const int> workers);

class Devices {
public:
  /// Of a plan that passed checkMachine(). `plan` and `files` outlive it. Fails
  /// as provePhase() and Device::bind() do, with InvalidFile where the plan's
  /// data flow is wrong, and with DoesNotFit.
  static StatusOr<std::unique_ptr<Devices>>
  create(const Plan &plan, const WeightFiles &files, DevicesOptions options);

  std::span<const RunnablePhase> phases() const { return phases_; }

  /// Runs one step. `step` is within the phase's token range. Cancelled when
  /// `cancel` (may be null) was set before the last barrier: the phase's
  /// buffers are then undefined. `times`, when not empty, has one entry per
  /// instruction, to which the time of its device's first worker in it is
  /// added.
  Status run(const RunnablePhase &phase, const moek::Step &step,
             const std::atomic<bool> *cancel = nullptr,
             std::span<InstructionTime> times = {});

  /// Runs one instruction of the phase, to look at what it does.
  Status runAlone(const RunnablePhase &phase, uint32_t instruction,
                  const moek::Step &step, const std::atomic<bool> *cancel);

  /// Workers of all CPU devices.
  int threads() const { return threads_; }
  /// By device.
  std::span<const DeviceMemory> memories() const { return memories_; }

private:
  explicit Devices(const Plan &plan) : plan_(plan) {}
  Status bind(const WeightFiles &files);

  const Plan &plan_;
  int threads_ = 0;
  std::vector<std::unique_ptr<Device>> devices_;
  /// The one whose wait() may need the caller's thread.
  size_t callers_ = 0;
  std::vector<DeviceMemory> memories_;
  std::vector<RunnablePhase> phases_;
  std::vector<std::unique_ptr<StepEvents>> events_; ///< By phase; may be null.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICES_H
