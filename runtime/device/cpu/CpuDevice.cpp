#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <cstring>

namespace moert {

CpuDevice::CpuDevice(const Plan &plan, uint32_t index, const WeightFiles &files,
                     CpuDeviceOptions options)
    : plan_(plan), index_(index), files_(files),
      room_(StepRoom::of(plan.table())), options_(std::move(options)) {}

Status CpuDevice::reserve() {
  const fb::Device &table = *plan_.table().devices()->Get(index_);
  MOE_ASSIGN_OR_RETURN(
      arena_, HostMemory::allocate(table.arena_bytes(), "activations"));
  MOE_ASSIGN_OR_RETURN(kv_,
                       HostMemory::allocate(table.kv_bytes(), "the KV cache"));
  MOE_ASSIGN_OR_RETURN(
      block_, HostMemory::allocate(room_.bytes(), "a step's parameters"));
  MOE_ASSIGN_OR_RETURN(
      std::unique_ptr<WorkerPool> pool,
      WorkerPool::create(options_.team, options_.cpus, options_.first));
  MOE_ASSIGN_OR_RETURN(
      executor_, Executor::create(std::move(pool),
                                  {table.worker_bytes(), table.scratch_bytes()},
                                  {options_.nodes, options_.range}));
  return Status::ok();
}

Status CpuDevice::bind(const ProvenPhase &phase,
                       std::span<std::byte *const> arenas, StepEvents *) {
  CpuMemory memory{arenas, kv_.data(), executor_->workerBuffers()};
  MOE_ASSIGN_OR_RETURN(BoundPhase bound,
                       bindPhase(plan_, phase, index_, memory, files_));
  rows_.emplace_back(phase, bound);
  if (options_.instrument)
    for (BoundInstruction &instruction : bound.instructions)
      options_.instrument(instruction, bound.arguments,
                          executor_->workerBuffers().size());
  phases_.push_back(std::move(bound));
  return Status::ok();
}

const moek::Step &CpuDevice::takeStep(const moek::Step &step) {
  writeStepBlock(step, room_, block_.data(),
                 reinterpret_cast<uintptr_t>(block_.data()));
  return *reinterpret_cast<const moek::Step *>(block_.data());
}

Status CpuDevice::runAlone(uint32_t phase, uint32_t instruction,
                           const moek::Step &step,
                           const std::atomic<bool> *cancel) {
  const auto &list = phases_[phase].instructions;
  auto found = std::ranges::find(list, instruction, &BoundInstruction::index);
  BoundPhase one;
  one.instructions.assign(1, *found);
  one.instructions[0].sync = 0;
  return executor_->run(one, takeStep(step), cancel);
}

std::byte *CpuDevice::at(const DeviceRegion &region) const {
  switch (region.memory) {
  case DeviceRegion::Memory::Arena:
    return arena_.data() + region.offset;
  case DeviceRegion::Memory::Kv:
    return kv_.data() + region.offset;
  case DeviceRegion::Memory::Worker:
    break;
  }
  return executor_->workerBuffers()[0] + region.offset;
}

Status CpuDevice::write(DeviceRegion to, std::span<const std::byte> bytes) {
  std::memcpy(at(to), bytes.data(), bytes.size());
  return Status::ok();
}

Status CpuDevice::copy(DeviceRegion from, uint64_t to) {
  DeviceRegion target{from.memory, to, from.bytes};
  std::memcpy(at(target), at(from), from.bytes);
  return Status::ok();
}

} // namespace moert
