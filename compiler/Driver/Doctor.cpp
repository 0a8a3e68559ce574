#include "compiler/Driver/Doctor.h"

#include "compiler/Cuda/Nvrtc.h"
#include "compiler/Machine/Targets/NativeTarget.h"
#include "kernels/Registry.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/WeightFiles.h"

#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <thread>

using moert::counted;
using moert::escaped;
using moert::humanBytes;
using moert::Status;
using Level = moec::Finding::Level;

namespace moec {

const char *nameOf(Finding::Level level) {
  switch (level) {
  case Level::Fine:
    return "ok";
  case Level::Slow:
    return "slow";
  case Level::Blocks:
    return "blocks";
  }
  return "";
}

namespace {

//===----------------------------------------------------------------------===//
// The CPU and its memory
//===----------------------------------------------------------------------===//

Finding instructionSet() {
  moek::Isa isa = moert::bestHostIsa();
  Finding finding{"instruction set", std::string(moek::isaName(isa))};
  if (isa == moek::Isa::Ref) {
    finding.hint =
        "plans run with the reference kernels only, hundreds of times "
        "slower: kernels need AVX2 or, on Arm, dot products (asimddp)";
    finding.level = Level::Slow;
  }
  return finding;
}

Finding cores() {
  size_t here = moert::physicalCores().size();
  size_t allowed = moert::allowedCpus().size(),
         all = std::thread::hardware_concurrency();
  Finding finding{"cores", counted(here, "core")};
  if (std::string name = moert::cpuModelName(); !name.empty())
    finding.value += " of " + escaped(name);
  if (allowed < all) {
    finding.hint = fmt::format(
        "this process may use {} of {} CPUs: plans use no more (taskset, "
        "cpuset)",
        allowed, all);
    finding.level = Level::Slow;
  }
  return finding;
}

Finding memoryNodes(const DoctorOptions &options) {
  int nodes = moert::countMemoryNodes(options.systemRoot);
  Finding finding{"memory nodes", std::to_string(nodes)};
  if (nodes > 1)
    finding.hint = "moert run --pin gives each node its rows of every expert";
  return finding;
}

Finding memory(const DoctorOptions &options) {
  moert::MemoryLimit limit =
      moert::hostMemoryLimit(options.systemRoot, options.processRoot);
  Finding finding{"memory", humanBytes(double(limit.bytes))};
  if (limit.isControlGroup)
    finding.value += " (of its control group)";
  uint64_t available = moert::memoryLine("MemAvailable:", options.processRoot);
  if (available == 0 || limit.bytes == 0)
    return finding;
  finding.value +=
      fmt::format(", {} of it available now",
                  humanBytes(double(std::min(available, limit.bytes))));
  if (available < limit.bytes / 2) {
    finding.hint = "other programs use more than half: weights that do not fit "
                   "beside them are read from the disk again and again";
    finding.level = Level::Slow;
  }
  return finding;
}

Finding hugePages(const DoctorOptions &options) {
  std::ifstream file(options.systemRoot +
                     "/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  // "always [madvise] never"
  size_t open = line.find('['), close = line.find(']');
  if (open == line.npos || close == line.npos || close < open)
    return {"huge pages", "unknown",
            "the system does not report whether it has transparent huge pages"};
  std::string mode = escaped(line.substr(open + 1, close - open - 1));
  Finding finding{"huge pages", mode};
  if (mode == "never") {
    finding.hint = "with \"madvise\" in /sys/kernel/mm/transparent_hugepage/"
                   "enabled, moert run --no-mmap reads weights faster";
    finding.level = Level::Slow;
  }
  return finding;
}

Finding limits() {
  auto of = [](auto resource) -> uint64_t {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
      return 0;
    return limit.rlim_cur;
  };
  Finding finding{"limits", "none that matter"};
  if (uint64_t bytes = of(RLIMIT_AS))
    finding = {
        "limits", humanBytes(double(bytes)) + " of address space (ulimit -v)",
        "weight files are mapped as a whole: ulimit -v unlimited", Level::Slow};
  else if (uint64_t files = of(RLIMIT_NOFILE); files && files < 256)
    finding = {"limits", fmt::format("{} open files (ulimit -n)", files),
               "a model in many parts needs as many: ulimit -n 1024",
               Level::Slow};
  return finding;
}

Finding disk(const DoctorOptions &options) {
  std::error_code error;
  std::filesystem::space_info space =
      std::filesystem::space(options.folder, error);
  if (error)
    return {"disk", escaped(options.folder) + ": " + error.message(),
            "name a folder that exists", Level::Slow};
  Finding finding{"disk", humanBytes(double(space.available)) + " free in " +
                              escaped(options.folder)};
  constexpr uint64_t kLittle = uint64_t(20) << 30;
  if (space.available < kLittle)
    finding.hint = "weights that are packed take a model's size again; moec "
                   "compile --weights reference writes none";
  return finding;
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

struct Gpu {
  moert::CudaGpu description;
  uint64_t freeBytes = 0;
};

moert::StatusOr<std::vector<Gpu>> gpusOf(const moert::CudaDriver &driver) {
  std::vector<Gpu> gpus;
  for (int i = 0; i < driver.deviceCount(); ++i) {
    Gpu gpu;
    MOE_ASSIGN_OR_RETURN(gpu.description, driver.describe(i));
    MOE_ASSIGN_OR_RETURN(auto context, moert::CudaContext::enter(
                                           driver, gpu.description.handle));
    MOE_ASSIGN_OR_RETURN(gpu.freeBytes, context->freeBytes());
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

void addGpus(const DoctorOptions &options, std::vector<Finding> &findings) {
  auto driver = moert::CudaDriver::load(options.cudaLibrary);
  if (!driver) {
    findings.push_back({"GPU", "none: " + driver.status().message(),
                        "only plans for CPUs run; for a GPU install NVIDIA's "
                        "driver"});
    return;
  }
  int version = 0;
  if (driver->api().cuDriverGetVersion(&version) == moert::cu::kSuccess)
    findings.push_back({"driver", fmt::format("for CUDA {}.{}", version / 1000,
                                              version % 1000 / 10)});
  auto gpus = gpusOf(*driver);
  if (!gpus) {
    findings.push_back({"GPU", gpus.status().message(),
                        "nvidia-smi may show what is wrong with it",
                        Level::Slow});
    return;
  }
  for (const Gpu &gpu : *gpus) {
    Finding finding{
        "GPU", fmt::format("{}: sm_{}, {}, {} free",
                           escaped(gpu.description.name), gpu.description.arch,
                           humanBytes(double(gpu.description.memoryBytes)),
                           humanBytes(double(gpu.freeBytes)))};
    if (gpu.freeBytes < gpu.description.memoryBytes / 2) {
      finding.hint = "other programs use more than half of its memory: plan "
                     "with --vram-limit, or end them";
      finding.level = Level::Slow;
    }
    findings.push_back(std::move(finding));
  }
}

Finding nvrtc(const DoctorOptions &options) {
  auto compiler = Nvrtc::open(options.nvrtc);
  if (!compiler) {
    return {"NVRTC", "none", compiler.status().message()};
  }
  return {"NVRTC", fmt::format("{}.{}", compiler->versionMajor(),
                               compiler->versionMinor())};
}

Finding calibration() {
  std::string file = nativeTargetFile();
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error))
    return {"calibration", "none",
            "moec calibrate measures this machine for --target native; the "
            "first compile for it takes some seconds otherwise"};
  auto target = loadTargetFile(file);
  if (!target)
    return {"calibration", target.status().message(),
            "moec calibrate measures again", Level::Slow};
  return {"calibration", escaped(file)};
}

//===----------------------------------------------------------------------===//
// A plan
//===----------------------------------------------------------------------===//

/// Splits a message: the first line is the finding, the rest the hint.
Finding failed(const char *check, const Status &status,
               Level level = Level::Blocks) {
  const std::string &text = status.message();
  size_t line = text.find('\n');
  Finding finding{check, text.substr(0, line),
                  line == text.npos ? "" : text.substr(line + 1), level};
  if (status.remedy())
    finding.remedy = *status.remedy();
  return finding;
}

/// Compares each GPU of the plan with the driver's GPU of the same number.
void addPlanGpus(const moert::Plan &plan, const DoctorOptions &options,
                 std::vector<Finding> &findings) {
  std::vector<const moert::fb::Device *> wanted;
  for (const moert::fb::Device *device : *plan.table().devices())
    if (device->kind() == moert::fb::DeviceKind::Cuda)
      wanted.push_back(device);
  if (wanted.empty())
    return;
  auto driver = moert::CudaDriver::load(options.cudaLibrary);
  if (!driver)
    return findings.push_back(
        {"GPUs of the plan", driver.status().message(),
         "install NVIDIA's driver, or compile for a machine without a GPU",
         Level::Blocks});
  auto gpus = gpusOf(*driver);
  if (!gpus)
    return findings.push_back(failed("GPUs of the plan", gpus.status()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::string name = moert::printable(moert::text(wanted[i]->name()));
    if (i >= gpus->size())
      return findings.push_back(
          {"GPUs of the plan", name + " is not there",
           fmt::format("the plan is for {}, and this machine has {}",
                       counted(wanted.size(), "GPU"),
                       counted(gpus->size(), "GPU")),
           Level::Blocks});
    const Gpu &gpu = (*gpus)[i];
    uint64_t need = moert::gpuBytes(*wanted[i]);
    Finding finding{name,
                    fmt::format("{} of {} free on {}", humanBytes(double(need)),
                                humanBytes(double(gpu.freeBytes)),
                                escaped(gpu.description.name))};
    if (gpu.description.arch < wanted[i]->arch()) {
      finding.hint = fmt::format(
          "its code is for sm_{} and later, this GPU is sm_{}: compile with "
          "--gpu-arch {}",
          wanted[i]->arch(), gpu.description.arch, gpu.description.arch);
      finding.level = Level::Blocks;
    } else if (need > gpu.freeBytes) {
      finding.hint = "end other programs on it, or compile with --vram-limit";
      finding.level = Level::Blocks;
    }
    findings.push_back(std::move(finding));
  }
}

Finding planMemory(const moert::Plan &plan) {
  int threads = int(moert::physicalCores().size());
  moert::MemoryFit fit = moert::memoryFit(plan, threads, /*copyWeights=*/false,
                                          moert::hostMemoryLimit());
  if (Status status = moert::checkFit(plan, fit, /*allowPaging=*/true);
      !status.isOk())
    return failed("memory for it", status);
  Finding finding{"memory for it",
                  fmt::format("{} of {}", humanBytes(double(fit.need.total())),
                              humanBytes(double(fit.limit.bytes)))};
  if (!fit.fits()) {
    finding.hint = moert::pagingNote(plan, fit);
    finding.level = Level::Slow;
  }
  return finding;
}

} // namespace

std::vector<Finding> examineMachine(const DoctorOptions &options) {
  std::vector<Finding> findings = {
      instructionSet(),   cores(),  memoryNodes(options), memory(options),
      hugePages(options), limits(), disk(options)};
  addGpus(options, findings);
  findings.push_back(nvrtc(options));
  findings.push_back(calibration());
  return findings;
}

std::vector<Finding> examinePlan(moert::Plan plan,
                                 const moert::RungRequest &wish,
                                 const DoctorOptions &options) {
  std::vector<Finding> findings;
  moert::LadderMachine machine;
  machine.threads = int(moert::physicalCores().size());
  machine.systemRoot = options.systemRoot;
  machine.processRoot = options.processRoot;
  machine.cudaLibrary = options.cudaLibrary;
  auto rung = moert::takeRung(plan, wish, machine);
  if (!rung)
    return {failed("rung", rung.status())};
  if (rung->number > 0)
    findings.push_back({"rung", rung->why});
  if (Status status = plan.checkMachine(); !status.isOk())
    findings.push_back(failed("CPU of the plan", status));
  else
    findings.push_back({"CPU of the plan", "this one runs it"});
  addPlanGpus(plan, options, findings);
  auto files = moert::findWeightFiles(plan, moert::WeightPaths(),
                                      moert::FileCheck::Sample);
  if (files)
    findings.push_back(
        {"weights", counted(files->size(), "file") + " there and unchanged"});
  else
    findings.push_back(failed("weights", files.status()));
  findings.push_back(planMemory(plan));
  return findings;
}

} // namespace moec
