//===- CpuDevice.h - Workers, arenas and caches of a CPU --------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H
#define MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/cpu/Executor.h"

#include <functional>
#include <memory>
#include <vector>

namespace moert {

struct CpuDeviceOptions {
  int32_t team = 1;
  FirstWorker first = FirstWorker::Caller;
  /// Where the workers run and the memory nodes of these CPUs; empty where they
  /// may run anywhere. See WorkerPool::create() and makeTeam().
  std::vector<int> cpus, nodes;
  /// Beside others: the team stays as it is.
  bool fixedTeam = false;
  /// Changes instructions as they are bound, for tests: may delay them.
  std::function<void(BoundInstruction &, ArgumentStore &)> instrument;
};

class CpuDevice final : public Device {
public:
  /// Reserves what device number `index` of `plan` takes. Its weights are where
  /// `files` has mapped them. `plan` and `files` outlive the device.
  static StatusOr<std::unique_ptr<CpuDevice>> create(const Plan &plan,
                                                     uint32_t index,
                                                     const WeightFiles &files,
                                                     CpuDeviceOptions options);

  DeviceMemory hostMemory() const override {
    return {arena_.data(), kv_.data(), executor_.workerBuffers()};
  }
  Status bind(const ProvenPhase &phase,
              std::span<const DeviceMemory> memories) override;
  void enqueue(uint32_t phase, const moek::Step &step,
               const StepControl &control) override {
    executor_.begin(phases_[phase], step, control);
  }
  Status wait() override { return executor_.end(); }
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override;

private:
  CpuDevice(const Plan &plan, uint32_t index, const WeightFiles &files,
            Executor executor)
      : plan_(plan), index_(index), files_(files),
        executor_(std::move(executor)) {}

  const Plan &plan_;
  const uint32_t index_;
  const WeightFiles &files_;
  HostMemory arena_, kv_;
  Executor executor_;
  std::vector<BoundPhase> phases_;
  std::function<void(BoundInstruction &, ArgumentStore &)> instrument_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CPUDEVICE_H
