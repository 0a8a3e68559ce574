#include "runtime/Devices.h"

#include "runtime/PlanAccess.h"
#include "runtime/Prove.h"
#include "runtime/Verify.h"

#include <algorithm>
#include <numeric>

namespace moert {

std::vector<int32_t> teamsOf(const fb::Plan &plan, int threads) {
  int32_t devices = int32_t(count(plan.devices()));
  std::vector<int32_t> teams(size_t(devices), 1);
  // What one more worker would make a worker's share of cores, where it is
  // largest.
  auto gain = [&](int32_t i) {
    return double(plan.devices()->Get(uint32_t(i))->cores()) /
           (teams[size_t(i)] + 1);
  };
  for (int32_t left = threads - devices; left > 0; --left) {
    int32_t best = 0;
    for (int32_t i = 1; i < devices; ++i)
      if (gain(i) > gain(best))
        best = i;
    ++teams[size_t(best)];
  }
  return teams;
}

std::vector<std::vector<int>> byDevice(std::span<const int32_t> teams,
                                       std::span<const int> workers) {
  std::vector<std::vector<int>> lists;
  for (int32_t team : teams) {
    auto own = workers.first(std::min(size_t(team), workers.size()));
    lists.emplace_back(own.begin(), own.end());
    workers = workers.subspan(own.size());
  }
  return lists;
}

StatusOr<std::unique_ptr<Devices>> Devices::create(const Plan &plan,
                                                   const WeightFiles &files,
                                                   DevicesOptions options) {
  std::unique_ptr<Devices> result(new Devices(plan));
  std::vector<int32_t> teams = teamsOf(plan.table(), options.threads);
  result->threads_ = std::accumulate(teams.begin(), teams.end(), 0);
  // The caller works where it waits longest: with the largest team.
  result->callers_ = size_t(std::ranges::max_element(teams) - teams.begin());
  auto cpus = byDevice(teams, options.cpus);
  auto nodes = byDevice(teams, options.nodes);
  for (uint32_t i = 0; i < teams.size(); ++i) {
    CpuDeviceOptions device;
    device.team = teams[i];
    device.first =
        i == result->callers_ ? FirstWorker::Caller : FirstWorker::Thread;
    device.cpus = std::move(cpus[i]);
    device.nodes = std::move(nodes[i]);
    device.fixedTeam = teams.size() > 1;
    device.instrument = options.instrument;
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> created,
                         CpuDevice::create(plan, i, files, std::move(device)));
    result->memories_.push_back(created->hostMemory());
    result->devices_.push_back(std::move(created));
  }
  MOE_RETURN_IF_ERROR(result->bind(files));
  return result;
}

Status Devices::bind(const WeightFiles &files) {
  const fb::Plan &plan = plan_.table();
  for (uint32_t i = 0; i < count(plan.phases()); ++i) {
    const fb::Phase &phase = *plan.phases()->Get(i);
    MOE_ASSIGN_OR_RETURN(ProvenPhase proven, provePhase(plan_, phase, files));
    MOE_RETURN_IF_ERROR(
        verifyDataflow(plan, phase)
            .at(fmt::format("{}: phase {}", plan_.path(), text(phase.name()))));
    for (const std::unique_ptr<Device> &device : devices_)
      MOE_RETURN_IF_ERROR(device->bind(proven, memories_));
    auto address = [&](uint32_t index) {
      const fb::Buffer &buffer = *phase.buffers()->Get(index);
      return memories_[buffer.device()].arena + buffer.offset();
    };
    phases_.push_back({std::string(text(phase.name())), phase.min_tokens(),
                       phase.max_tokens(), address(phase.input()),
                       reinterpret_cast<float *>(address(phase.output())), i,
                       count(phase.instructions())});
    events_.push_back(phase.events() > 0
                          ? std::make_unique<StepEvents>(phase.events())
                          : nullptr);
  }
  return Status::ok();
}

Status Devices::run(const RunnablePhase &phase, const moek::Step &step,
                    const std::atomic<bool> *cancel,
                    std::span<InstructionTime> times) {
  StepControl control{events_[phase.number].get(), cancel, times};
  if (control.events)
    control.events->beginStep();
  for (const std::unique_ptr<Device> &device : devices_)
    device->enqueue(phase.number, step, control);
  // First where this thread does a share; the others need no help.
  Status status = devices_[callers_]->wait();
  for (size_t i = 0; i < devices_.size(); ++i)
    if (i != callers_)
      if (Status other = devices_[i]->wait(); status.isOk())
        status = std::move(other);
  if (status.isOk() && control.events && control.events->stopped())
    return Status(StatusCode::Cancelled, "interrupted");
  return status;
}

Status Devices::runAlone(const RunnablePhase &phase, uint32_t instruction,
                         const moek::Step &step,
                         const std::atomic<bool> *cancel) {
  const fb::Phase &table = *plan_.table().phases()->Get(phase.number);
  uint32_t device =
      deviceOf(plan_.table(), *table.instructions()->Get(instruction));
  return devices_[device]->runAlone(phase.number, instruction, step, cancel);
}

} // namespace moert
