#include "runtime/engine/Engine.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/ControlGroups.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"
#include "runtime/device/cpu/NodeParts.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "runtime/engine/NodeUse.h"
#include "runtime/plan/MappedPlan.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace moert {

/// Returns the error to report if the plan cannot run. A missing GPU takes
/// precedence, because fixing anything else would be in vain.
static Status preferMissingGpu(const Plan &plan, Status status) {
  if (status.isOk())
    return status;
  Status gpus = checkGpus(plan);
  return gpus.isOk() ? status : gpus;
}

static MemoryFit fitOf(const Plan &plan, int threads, bool copyWeights,
                       const EngineOptions &options) {
  return memoryFit(plan, threads, copyWeights,
                   hostMemoryLimit(options.systemRoot),
                   freeHostBytes(options.systemRoot));
}

StatusOr<std::unique_ptr<Engine>>
Engine::openFiles(Plan plan, const EngineOptions &options) {
  const CpuBudget budget = readCpuBudget(options.systemRoot);
  MOE_ASSIGN_OR_RETURN(TeamRange any, resolveThreads(options.threads, budget));
  LadderMachine machine{.threads = any.most,
                        .copyWeights = options.copyWeights,
                        .allowPaging = options.allowPaging,
                        .systemRoot = options.systemRoot,
                        .models = options.files.models};
  StatusOr<RungChoice> rung = takeRung(plan, options.rung, machine);
  if (!rung)
    return preferMissingGpu(plan, rung.status());
  MOE_RETURN_IF_ERROR(
      preferMissingGpu(plan, plan.checkMachine(options.files.models)));
  MOE_ASSIGN_OR_RETURN(TeamRange workers,
                       workersFor(plan.table(), options.threads, budget));
  std::string mapped;
  if (MemoryFit fit = fitOf(plan, workers.most, false, options);
      options.allowPaging && fit.need.loaded > 0 && !fit.fits()) {
    MOE_ASSIGN_OR_RETURN(plan, withMappedRows(plan));
    mapped = "memory does not hold the weights as they would be laid out: rows "
             "of the mapped model file are read instead, which is slower "
             "(--allow-paging)";
  }
  std::unique_ptr<Engine> engine(new Engine(std::move(plan)));
  engine->rungNote_ = std::move(rung->why);
  engine->mappingNote_ = std::move(mapped);
  auto files = WeightFiles::open(engine->plan_, options.files);
  if (!files)
    return preferMissingGpu(engine->plan_, files.status());
  engine->files_ = *std::move(files);
  return engine;
}

StatusOr<std::unique_ptr<Engine>> Engine::open(const std::string &planPath,
                                               const EngineOptions &options) {
  std::unique_ptr<Engine> engine;
  MOE_RETURN_IF_ERROR(openWithPlan(planPath, [&](Plan plan) -> Status {
    MOE_ASSIGN_OR_RETURN(engine, openFiles(std::move(plan), options));
    return Status::ok();
  }));
  MOE_RETURN_IF_ERROR(engine->ready(options));
  return engine;
}

StatusOr<std::unique_ptr<Engine>> Engine::create(Plan plan,
                                                 const EngineOptions &options) {
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       openFiles(std::move(plan), options));
  MOE_RETURN_IF_ERROR(engine->ready(options));
  return engine;
}

Status Engine::ready(const EngineOptions &options) {
  Status status = prepare(options);
  if (status.isOk() || plan_.chosen() == 0)
    return status;
  return std::move(status).at(plan_.rungName());
}

Status Engine::mayGenerate() const {
  if (count(plan_.table().labels()) == 0)
    return Status::ok();
  return Status(StatusCode::Unsupported,
                fmt::format("{}: the model ends in a classifier (outputs: {}) "
                            "and writes no text; rank documents with POST "
                            "/v1/rerank of moert serve",
                            plan_.path(),
                            fmt::join(labelsOf(plan_.table()), ", ")));
}

Status Engine::prepare(const EngineOptions &options) {
  const fb::Plan &table = plan_.table();
  hiddenSize_ = table.hidden();
  vocab_ = static_cast<int32_t>(table.vocab());
  logitsSize_ = size_t(logitsOf(table));
  context_ = table.context();
  if (options.rung.context > context_)
    return adviseContext(
        Status(StatusCode::DoesNotFit,
               fmt::format("--ctx {}: the plan has a context of {}",
                           options.rung.context, context_)),
        options.rung.context);
  if (options.rung.context > 0)
    context_ = int32_t(std::min<int64_t>(context_, options.rung.context));
  modelPaths_ = options.files.models;
  NodeUse use{options.threads, options.pin, options.copyWeights};
  Topology topology = readTopology(allowedCpus(), options.systemRoot);
  const double quota = cpuQuota(options.systemRoot);
  CpuBudget budget = cpuBudget(topology, quota);
  if (options.planNodes)
    use = chooseNodeUse(table, use, topology);
  else
    use.topology = std::move(topology);
  // The plan may ask for the CPUs of a single memory node.
  if (use.threads == 0)
    budget = cpuBudget(use.topology, quota);
  MOE_ASSIGN_OR_RETURN(TeamRange workers,
                       workersFor(table, use.threads, budget));
  std::vector<WorkerPlace> places = placeWorkers(use.topology, workers.most);
  if (use.pin && places.front().node != places.back().node) {
    // Each node's workers read their own part of the weights in every step.
    workers = TeamRange::fixed(workers.first);
    places = placeWorkers(use.topology, workers.first);
  }
  const int threads = workers.most;
  memory_ = fitOf(plan_, threads, use.copyWeights, options);
  if (use.copyWeights && !options.copyWeights &&
      (options.allowPaging || !memory_.fits())) {
    use.copyWeights = false;
    memory_ = fitOf(plan_, threads, false, options);
  }
  MOE_RETURN_IF_ERROR(
      preferMissingGpu(plan_, checkFit(plan_, memory_, options.allowPaging)));
  nodeNote_ = std::move(use.note);
  DeviceOptions devices;
  devices.threads = threads;
  devices.range = std::move(workers);
  devices.cuda = options.cuda;
  // Only a pinned worker has a memory node of its own.
  if (use.pin)
    for (WorkerPlace place : places) {
      devices.cpus.push_back({place.cpu});
      devices.nodes.push_back(place.node);
    }
  else
    devices.cpus = workerCpus(use.topology, threads);
  InterleaveScope memory(use.interleaved);
  MOE_RETURN_IF_ERROR(loadWeights(
      use,
      nodeParts(table, splitByDevice(workersByDevice(table, threads),
                                     std::span<const int>(devices.nodes))),
      options.loading));
  MOE_RETURN_IF_ERROR(createDevices(options, std::move(devices)));
  MOE_RETURN_IF_ERROR(files_->checkWhatWasRead());
  kvPages_ = KvPages(table, *devices_);
  pool_.emplace(kvPages_.count());
  headNorm_ = HeadNorm::find(plan_, *files_);
  if (stateRows(table) > 0)
    states_.emplace(table, *devices_, *pool_);
  return Status::ok();
}

Status Engine::loadWeights(const NodeUse &use,
                           std::span<const std::vector<NodeBytes>> parts,
                           const LoadProgress &progress) {
  PiecesOptions options;
  if (progress)
    options.progress = [&](uint64_t done, uint64_t total) {
      progress("memory", done, total);
      return true;
    };
  // If memory does not hold the model file beside what is made of it, its pages
  // leave the page cache behind the reader.
  const bool forget = memory_.need.loaded > 0 && memory_.free > 0 &&
                      memory_.need.total() + memory_.need.loaded > memory_.free;
  MOE_RETURN_IF_ERROR(files_->load(parts, forget, options));
  return use.copyWeights ? files_->copyToMemory(plan_, parts, options)
                         : Status::ok();
}

Status Engine::adviseContext(Status failure, int64_t tokens) const {
  for (uint32_t number = 1; number <= plan_.rungs(); ++number)
    if (plan_.rung(number).context() >= tokens)
      return std::move(failure).append(
          fmt::format("; rung {} of the plan holds {}: give --rung {}", number,
                      counted(plan_.rung(number).context(), "token"), number));
  return moert::adviseContext(std::move(failure), plan_.table(), plan_.path(),
                              tokens, modelPaths_);
}

OutputRule Engine::outputRule(bool force, std::string forceWord) const {
  OutputRule rule(force, std::move(forceWord));
  rule.addPlan(plan_);
  // The rule also covers the files' present paths, which the user may have
  // given.
  for (const std::string &path : weightPaths())
    rule.addInput("the weights", path);
  return rule;
}

Status Engine::createDevices(const EngineOptions &options,
                             DeviceOptions ofDevices) {
  auto create = [&]() -> Status {
    MOE_ASSIGN_OR_RETURN(
        DeviceList made,
        options.makeDevices(plan_, *files_, std::move(ofDevices)));
    MOE_ASSIGN_OR_RETURN(
        devices_,
        Devices::create(plan_, *files_, std::move(made), options.loading));
    return Status::ok();
  };
  Status created = create();
  // The error of a GPU already suggests a fix.
  auto isGpu = [](const fb::Device *device) {
    return device->kind() == fb::DeviceKind::Cuda;
  };
  if (created.code() == StatusCode::WrongMachine &&
      std::ranges::none_of(*plan_.table().devices(), isGpu))
    created = std::move(created).suggesting(
        recompile(Suggestion::ForThisMachine, plan_.table(), plan_.path(),
                  {{"--target", "native"}}, modelPaths_));
  MOE_RETURN_IF_ERROR(std::move(created));
  auto find = [&](PhaseKind kind) -> std::optional<RunnablePhase> {
    for (const RunnablePhase &phase : devices_->phases())
      if (phase.kind == kind)
        return phase;
    return std::nullopt;
  };
  decode_ = *find(PhaseKind::Decode);
  logits_ = *find(PhaseKind::Logits);
  batch_ = find(PhaseKind::Batch);
  prefill_ = find(PhaseKind::Prefill);
  streamed_ = find(PhaseKind::StreamedPrefill);
  draft_ = find(PhaseKind::Draft);
  draftLogits_ = find(PhaseKind::DraftLogits);
  return Status::ok();
}

int32_t Engine::ubatch() const {
  const RunnablePhase &longest = streamed_  ? *streamed_
                                 : prefill_ ? *prefill_
                                            : decode_;
  return longest.maxTokens;
}

Sequence Engine::sequence(SequenceOptions options) {
  return Sequence(*this, options);
}

} // namespace moert
