//===- CpuDevice.h - Workers, arenas and caches of a CPU --------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H
#define MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/StepBlock.h"
#include "runtime/device/cpu/Executor.h"
#include "runtime/device/cpu/FileRows.h"

#include <functional>
#include <optional>
#include <vector>

namespace moert {

struct CpuDeviceOptions {
  int32_t team = 1; ///< Number of workers.
  FirstWorker first = FirstWorker::Caller;
  /// The CPUs of the workers, for WorkerPool::create().
  std::vector<std::vector<int>> cpus;
  /// Memory nodes of these CPUs, for makeWorkers(); empty if workers are not
  /// pinned.
  std::vector<int> nodes;
  /// How many of them run a step.
  TeamRange range = TeamRange::fixed(1);
  /// For tests: changes instructions when they are bound to this number of
  /// workers, for example to delay them.
  std::function<void(BoundInstruction &, ArgumentStore &, size_t workers)>
      instrument;
};

class CpuDevice final : public Device {
public:
  /// Creates device number `index` of `plan`, which `files` and it must
  /// outlive.
  CpuDevice(const Plan &plan, uint32_t index, const WeightFiles &files,
            CpuDeviceOptions options);

  Status reserve() override;
  /// Nothing to do: weights are mapped by `files`, kernels are in this program.
  Status load(const LoadProgress &) override { return Status::ok(); }
  Status bind(const ProvenPhase &phase, std::span<std::byte *const> arenas,
              StepEvents *events) override;
  std::byte *hostArena() const override { return arena_.data(); }
  int32_t threads() const override { return options_.team; }
  int32_t team() const override {
    return executor_ ? executor_->lastTeam() : options_.range.first;
  }
  bool borrowsCaller() const override {
    return options_.first == FirstWorker::Caller;
  }

  Status enqueue(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override {
    rows_[phase].request(step);
    executor_->begin(phases_[phase], takeStep(step), control);
    return Status::ok();
  }
  Status wait() override { return executor_->end(); }
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override;

  /// Returns the bytes themselves, which a step, write() or copy() may change.
  StatusOr<std::span<const std::byte>> read(DeviceRegion from) override {
    return std::span<const std::byte>(at(from), from.bytes);
  }
  Status write(DeviceRegion to, std::span<const std::byte> bytes) override;
  Status copy(DeviceRegion from, uint64_t to) override;

private:
  std::byte *at(const DeviceRegion &region) const;
  /// Copies the step into the step block and returns the copy.
  const moek::Step &takeStep(const moek::Step &step);

  const Plan &plan_;
  const uint32_t index_;
  const WeightFiles &files_;
  const StepRoom room_;
  CpuDeviceOptions options_;
  HostMemory arena_, kv_, block_;
  std::optional<Executor> executor_; ///< Set by reserve().
  std::vector<BoundPhase> phases_;
  std::vector<FileRows> rows_; ///< One entry per phase.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H
