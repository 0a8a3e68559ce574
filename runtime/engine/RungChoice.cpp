#include "runtime/engine/RungChoice.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"

#include <algorithm>

namespace moert {

namespace {
std::string nameOf(const RungNeed &rung, size_t index) {
  return fmt::format("rung {} ({})", index + 1, counted(rung.context, "token"));
}

/// Returns what a rung lacks, worded to follow "rung 3 (131072 tokens) needs",
/// or "" if the rung fits.
std::string shortageOf(const RungNeed &rung, const FreeMemory &free) {
  for (size_t i = 0; i < rung.gpus.size(); ++i) {
    std::string need = humanBytes(double(rung.gpus[i]));
    if (i >= free.gpus.size())
      return fmt::format("{} of gpu{}, which is not there", need, i);
    if (rung.gpus[i] > free.gpus[i])
      return fmt::format("{} of gpu{}, which has {} free", need, i,
                         humanBytes(double(free.gpus[i])));
  }
  if (free.host > 0 && rung.host > free.host)
    return fmt::format("{} of the host's memory, of which {} are free",
                       humanBytes(double(rung.host)),
                       humanBytes(double(free.host)));
  return "";
}

/// Returns the indices of the rungs that hold the context, in the order in
/// which to try them.
std::vector<size_t> inOrder(std::span<const RungNeed> rungs, int64_t context) {
  std::vector<size_t> order;
  for (size_t i = rungs.size(); i-- > 0;)
    if (rungs[i].context >= context)
      order.push_back(i);
  // The sort is stable: among equal contexts, most GPU memory stays first.
  if (context > 0)
    std::ranges::stable_sort(order, {},
                             [&](size_t i) { return rungs[i].context; });
  return order;
}

/// Returns the needs of all rungs. Changes which rung of `plan` is chosen.
std::vector<RungNeed> needsOf(Plan &plan, const LadderMachine &machine,
                              bool paged) {
  std::vector<RungNeed> needs;
  for (uint32_t number = 1; number <= plan.rungs(); ++number) {
    plan.choose(number);
    const fb::Plan &table = plan.table();
    RungNeed &need = needs.emplace_back();
    need.context = table.context();
    MemoryNeed host =
        memoryFit(plan, machine.threads, machine.copyWeights, {}).need;
    need.host = paged ? host.withoutWeights() : host.total();
    for (uint32_t i = 0; i < count(table.devices()); ++i)
      if (const fb::Device &device = *table.devices()->Get(i);
          device.kind() == fb::DeviceKind::Cuda)
        // The host's need has that of GPUs that share its memory.
        need.gpus.push_back(device.shares_memory() ? 0 : gpuBytes(device));
  }
  return needs;
}

/// Returns the free memory of the GPUs that can be opened. Errors are ignored
/// here and reported when the devices are opened.
std::vector<uint64_t> freeOfGpus(const std::string &library) {
  std::vector<uint64_t> bytes;
  StatusOr<CudaDriver> driver = CudaDriver::load(library);
  for (int i = 0; driver && i < driver->deviceCount(); ++i) {
    auto gpu = driver->describe(i);
    if (!gpu)
      break;
    auto context = CudaContext::enter(*driver, gpu->handle);
    if (!context)
      break;
    auto free = (*context)->freeBytes();
    if (!free)
      break;
    bytes.push_back(*free);
  }
  return bytes;
}

Status checkPlan(const Plan &plan, const RungRequest &wish,
                 const LadderMachine &machine) {
  if (wish.context > plan.table().context())
    return adviseContext(
        Status(StatusCode::DoesNotFit,
               fmt::format("{}: holds a context of {}, and {} were requested",
                           plan.path(),
                           counted(plan.table().context(), "token"),
                           wish.context)),
        plan.table(), plan.path(), wish.context, machine.models);
  return Status::ok();
}
} // namespace

StatusOr<RungChoice> chooseRung(std::span<const RungNeed> rungs,
                                const FreeMemory &free,
                                const RungRequest &wish) {
  auto chosen = [&](size_t index, bool fits, std::string_view why) {
    return RungChoice{uint32_t(index + 1), fits,
                      fmt::format("rung {} of {}, with a context of {}{}",
                                  index + 1, rungs.size(),
                                  counted(rungs[index].context, "token"), why)};
  };
  if (wish.number > 0) {
    const RungNeed &rung = rungs[wish.number - 1];
    if (rung.context < wish.context)
      return Status(
          StatusCode::DoesNotFit,
          fmt::format("--rung {} holds {}, and {} were requested; leave out "
                      "--rung or ask for fewer",
                      wish.number, counted(rung.context, "token"),
                      wish.context));
    return chosen(wish.number - 1, false, ", as requested");
  }
  std::vector<size_t> order = inOrder(rungs, wish.context);
  if (order.empty())
    return Status(
        StatusCode::DoesNotFit,
        fmt::format("its largest rung holds {}, and {} were requested",
                    counted(rungs.back().context, "token"), wish.context));
  std::string lacks;
  for (size_t index : order) {
    std::string lack = shortageOf(rungs[index], free);
    if (lack.empty()) {
      std::string_view why = wish.context > 0
                                 ? ", which holds the requested context"
                                 : ", the largest";
      return lacks.empty() ? chosen(index, true, why)
                           : chosen(index, true, lacks);
    }
    lacks += fmt::format("{} {} needs {}", lacks.empty() ? ":" : ";",
                         nameOf(rungs[index], index), lack);
  }
  size_t least = 0;
  while (rungs[least].context < wish.context)
    ++least;
  return chosen(least, false, ", though none fits" + lacks);
}

StatusOr<RungChoice> takeRung(Plan &plan, const RungRequest &wish,
                              const LadderMachine &machine) {
  MOE_RETURN_IF_ERROR(plan.chooseNamed(wish.number));
  if (plan.rungs() == 0) {
    MOE_RETURN_IF_ERROR(checkPlan(plan, wish, machine));
    return RungChoice();
  }
  std::vector<RungNeed> needs = needsOf(plan, machine, /*paged=*/false);
  FreeMemory free;
  free.host = freeHostBytes(machine.systemRoot, machine.processRoot);
  bool onGpus = std::ranges::any_of(
      needs, [](const RungNeed &need) { return !need.gpus.empty(); });
  if (onGpus && wish.number == 0)
    free.gpus = freeOfGpus(machine.cudaLibrary);
  StatusOr<RungChoice> choice = chooseRung(needs, free, wish);
  if (choice && !choice->fits && wish.number == 0 && machine.allowPaging)
    choice = chooseRung(needsOf(plan, machine, /*paged=*/true), free, wish);
  if (!choice) {
    Status status = choice.status();
    if (wish.number == 0)
      status = adviseContext(std::move(status), plan.table(), plan.path(),
                             wish.context, machine.models);
    return std::move(status).at(plan.path());
  }
  plan.choose(choice->number);
  return choice;
}

} // namespace moert
