#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/PlanAccess.h"

#include <algorithm>

namespace moert {

StatusOr<std::unique_ptr<CpuDevice>>
CpuDevice::create(const Plan &plan, uint32_t index, const WeightFiles &files,
                  CpuDeviceOptions options) {
  const fb::Device &table = *plan.table().devices()->Get(index);
  MOE_ASSIGN_OR_RETURN(
      HostMemory arena,
      HostMemory::allocate(table.arena_bytes(), "activations"));
  MOE_ASSIGN_OR_RETURN(HostMemory kv,
                       HostMemory::allocate(table.kv_bytes(), "the KV cache"));
  MOE_ASSIGN_OR_RETURN(
      std::unique_ptr<WorkerPool> pool,
      WorkerPool::create(options.team, options.cpus, options.first));
  MOE_ASSIGN_OR_RETURN(
      Executor executor,
      Executor::create(std::move(pool),
                       {table.worker_bytes(), table.scratch_bytes()},
                       options.nodes));
  if (options.fixedTeam)
    executor.fixTeam();
  std::unique_ptr<CpuDevice> device(
      new CpuDevice(plan, index, files, std::move(executor)));
  device->arena_ = std::move(arena);
  device->kv_ = std::move(kv);
  device->instrument_ = std::move(options.instrument);
  return device;
}

Status CpuDevice::bind(const ProvenPhase &phase,
                       std::span<const DeviceMemory> memories) {
  MOE_ASSIGN_OR_RETURN(BoundPhase bound,
                       bindPhase(plan_, phase, index_, memories, files_));
  if (instrument_)
    for (BoundInstruction &instruction : bound.instructions)
      instrument_(instruction, bound.arguments);
  phases_.push_back(std::move(bound));
  return Status::ok();
}

Status CpuDevice::runAlone(uint32_t phase, uint32_t instruction,
                           const moek::Step &step,
                           const std::atomic<bool> *cancel) {
  const auto &list = phases_[phase].instructions;
  auto found = std::ranges::find(list, instruction, &BoundInstruction::index);
  BoundPhase one;
  one.instructions.assign(1, *found);
  one.instructions[0].sync = 0;
  return executor_.run(one, step, cancel);
}

} // namespace moert
