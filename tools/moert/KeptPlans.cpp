#include "tools/moert/KeptPlans.h"

#include "runtime/base/ContentHash.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Topology.h"
#include "runtime/base/UserCache.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/device/cuda/CudaDriver.h"
#include "runtime/plan/Plan.h"
#include "tools/common/Json.h"
#include "tools/common/Output.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace moert {

namespace {
namespace stdfs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t timeOf(const stdfs::path &path) {
  std::error_code error;
  const auto time = stdfs::last_write_time(path, error);
  return error ? 0 : int64_t(time.time_since_epoch().count());
}

uint64_t bytesOf(const stdfs::path &path) {
  std::error_code error;
  const uintmax_t bytes = stdfs::file_size(path, error);
  return error ? 0 : uint64_t(bytes);
}

/// Plans are made for what a machine has, not for its name.
std::string thisMachine() {
  std::string machine = fmt::format(
      "{}, {}, {} cores, {} GiB", cpuModelName(), moek::isaName(bestHostIsa()),
      physicalCores().size(), hostMemoryLimit().bytes >> 30);
  if (auto driver = CudaDriver::load(CudaDriver::kLibrary))
    for (int ordinal = 0; ordinal < driver->deviceCount(); ++ordinal)
      if (auto gpu = driver->describe(ordinal))
        machine +=
            fmt::format(", {} of {} MiB", gpu->name, gpu->memoryBytes >> 20);
  return machine;
}

/// Returns the path at which a shell finds the program.
stdfs::path searchPath(const std::string &program) {
  const char *folders = std::getenv("PATH");
  if (program.find('/') != std::string::npos || !folders)
    return program;
  std::stringstream list(folders);
  std::error_code error;
  for (std::string folder; std::getline(list, folder, ':');)
    if (stdfs::path path = stdfs::path(folder) / program;
        stdfs::is_regular_file(path, error))
      return path;
  return {};
}

std::string thisCompiler() {
  const stdfs::path program = searchPath(moetool::toolPath("moec"));
  return fmt::format("{} {} {}", MOE_VERSION, bytesOf(program),
                     timeOf(program));
}

stdfs::path sidecarOf(const std::string &plan) {
  return stdfs::path(plan).replace_extension(".json");
}

/// All files of a plan.
std::vector<stdfs::path> filesOf(const std::string &plan) {
  return {plan, stdfs::path(plan).replace_extension(".weights"),
          sidecarOf(plan)};
}

Json toJson(const KeptPlan &plan) {
  const PlanOrigin &origin = plan.origin;
  return {{"model", origin.model},
          {"model_bytes", origin.modelBytes},
          {"model_time", origin.modelTime},
          {"machine", origin.machine},
          {"compiler", origin.compiler},
          {"options", origin.options},
          {"options_key", origin.optionsKey},
          {"sequences", plan.sequences},
          {"ladder", plan.isLadder},
          {"contexts", plan.contexts}};
}

/// Returns nothing for a file that another version wrote.
std::optional<KeptPlan> fromJson(const stdfs::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Json json = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  KeptPlan plan;
  PlanOrigin &origin = plan.origin;
  auto take = [&](const char *name, auto &value) {
    using Value = std::decay_t<decltype(value)>;
    auto found = json.is_object() ? json.find(name) : json.end();
    if (!json.is_object() || found == json.end())
      return false;
    try {
      value = found->template get<Value>();
    } catch (const Json::exception &) {
      return false;
    }
    return true;
  };
  if (take("model", origin.model) && take("model_bytes", origin.modelBytes) &&
      take("model_time", origin.modelTime) && take("machine", origin.machine) &&
      take("compiler", origin.compiler) && take("options", origin.options) &&
      take("options_key", origin.optionsKey) &&
      take("sequences", plan.sequences) && take("ladder", plan.isLadder) &&
      take("contexts", plan.contexts))
    return plan;
  return std::nullopt;
}

std::string whyStale(const KeptPlan &plan, const std::string &machine,
                     const std::string &compiler) {
  const PlanOrigin &origin = plan.origin;
  if (origin.model.empty())
    return "another version of moert kept it";
  if (std::error_code error; !stdfs::exists(origin.model, error))
    return "the model is gone";
  if (bytesOf(origin.model) != origin.modelBytes ||
      timeOf(origin.model) != origin.modelTime)
    return "the model has changed";
  if (origin.machine != machine)
    return "for another machine";
  if (origin.compiler != compiler)
    return "another moec made it";
  return "";
}

/// The context that a request for `context` tokens would get; none if the plan
/// does not hold them.
std::optional<int64_t> contextFor(const KeptPlan &plan, int64_t context) {
  if (context == 0)
    return plan.isLadder ? std::optional<int64_t>(0) : std::nullopt;
  auto enough = std::ranges::lower_bound(plan.contexts, context);
  return enough == plan.contexts.end() ? std::nullopt
                                       : std::optional<int64_t>(*enough);
}

bool canRun(const std::string &path) {
  auto plan = Plan::load(path);
  return plan && plan->checkMachine().isOk();
}
} // namespace

StatusOr<std::string> keptPlansFolder() {
  std::string cache = userCacheFolder();
  if (cache.empty())
    return Status(StatusCode::Io, "there is no folder for plans, since neither "
                                  "HOME nor XDG_CACHE_HOME is set");
  return (stdfs::path(cache) / "plans").string();
}

StatusOr<PlanOrigin> originOf(const std::string &model) {
  std::error_code error;
  const stdfs::path path = stdfs::canonical(model, error);
  if (error)
    return Status(StatusCode::Io, model + ": " + error.message());
  PlanOrigin origin;
  origin.model = path.string();
  origin.modelBytes = bytesOf(path);
  origin.modelTime = timeOf(path);
  origin.machine = thisMachine();
  origin.compiler = thisCompiler();
  return origin;
}

StatusOr<std::vector<KeptPlan>> keptPlans() {
  MOE_ASSIGN_OR_RETURN(const std::string folder, keptPlansFolder());
  std::vector<KeptPlan> plans;
  const std::string machine = thisMachine(), compiler = thisCompiler();
  std::error_code error;
  for (const auto &entry : stdfs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".fb")
      continue;
    const std::string path = entry.path().string();
    KeptPlan plan = fromJson(sidecarOf(path)).value_or(KeptPlan());
    plan.path = path;
    for (const stdfs::path &file : filesOf(path))
      plan.bytes += bytesOf(file);
    plan.stale = whyStale(plan, machine, compiler);
    plans.push_back(std::move(plan));
  }
  std::ranges::sort(plans, {}, [](const KeptPlan &plan) {
    return std::tuple(plan.origin.model, plan.contexts, plan.path);
  });
  return plans;
}

StatusOr<std::string> findKept(const PlanOrigin &origin, int32_t sequences,
                               int64_t context) {
  MOE_ASSIGN_OR_RETURN(std::vector<KeptPlan> plans, keptPlans());
  std::erase_if(plans, [&](const KeptPlan &plan) {
    return plan.origin != origin || plan.sequences < sequences ||
           !contextFor(plan, context);
  });
  std::ranges::stable_sort(plans, {}, [&](const KeptPlan &plan) {
    return std::pair(*contextFor(plan, context), plan.sequences);
  });
  auto found = std::ranges::find_if(
      plans, [](const KeptPlan &plan) { return canRun(plan.path); });
  return found == plans.end() ? "" : found->path;
}

StatusOr<std::string> pathToKeep(const PlanOrigin &origin, int32_t sequences,
                                 int64_t context) {
  MOE_ASSIGN_OR_RETURN(const std::string folder, keptPlansFolder());
  std::error_code error;
  stdfs::create_directories(folder, error);
  if (error)
    return Status(StatusCode::Io, folder + ": " + error.message());
  KeptPlan plan;
  plan.origin = origin;
  plan.sequences = sequences;
  plan.contexts = {context};
  const std::string key = toJson(plan).dump();
  const uint64_t hash = hash64(
      {std::span(reinterpret_cast<const uint8_t *>(key.data()), key.size())});
  return (stdfs::path(folder) /
          fmt::format("{}-{:016x}.fb",
                      stdfs::path(origin.model).stem().string(), hash))
      .string();
}

Status keep(const std::string &path, PlanOrigin origin, int32_t sequences,
            bool isLadder) {
  MOE_ASSIGN_OR_RETURN(const Plan plan, Plan::load(path));
  KeptPlan kept;
  kept.origin = std::move(origin);
  kept.sequences = sequences;
  kept.isLadder = isLadder;
  for (uint32_t rung = 1; rung <= std::max(1u, plan.rungs()); ++rung)
    kept.contexts.push_back(plan.rung(rung).context());
  std::ofstream file(sidecarOf(path));
  file << toJson(kept).dump(2) << "\n";
  if (!file.flush())
    return Status(StatusCode::Io,
                  sidecarOf(path).string() + ": cannot be written");
  MOE_ASSIGN_OR_RETURN(std::vector<KeptPlan> plans, keptPlans());
  for (const KeptPlan &other : plans) {
    PlanOrigin now = other.origin;
    now.compiler = kept.origin.compiler;
    now.modelBytes = kept.origin.modelBytes;
    now.modelTime = kept.origin.modelTime;
    if (!other.stale.empty() && now == kept.origin)
      MOE_RETURN_IF_ERROR(removeKept(other));
  }
  return Status::ok();
}

Status removeKept(const KeptPlan &plan) {
  for (const stdfs::path &file : filesOf(plan.path)) {
    std::error_code error;
    stdfs::remove(file, error);
    if (error)
      return Status(StatusCode::Io, file.string() + ": " + error.message());
  }
  return Status::ok();
}

} // namespace moert
