#include "compiler/Targets/NativeTarget.h"

#include "compiler/Targets/NativeGpu.h"
#include "compiler/Targets/TargetJson.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"
#include "runtime/device/cpu/Calibrate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Copies repeat to within a percent sooner than reads by many cores do.
constexpr double kGpuShareOfSeconds = 0.3;

/// ISA, cores, caches and memory, without rates.
DeviceDesc detectDevice() {
  DeviceDesc device;
  device.model = "native";
  device.title = moert::cpuModelName();
  device.kind = DeviceKind::Cpu;
  device.isa = moert::bestHostIsa();
  device.cores = int(moert::physicalCores().size());
  device.numaNodes = moert::countMemoryNodes();
  device.memoryBytes = moert::hostMemoryBytes();
  // For the system and other programs: an eighth, at most 8 GiB.
  device.reservedBytes =
      std::min<uint64_t>(device.memoryBytes / 8, uint64_t(8) << 30);
  moert::CacheSizes caches = moert::hostCaches();
  device.l1Bytes = caches.l1Bytes;
  device.l2Bytes = caches.l2Bytes;
  device.l3Bytes = caches.l3Bytes;
  return device;
}

/// Adds the rates of all cores together.
Status measureDevice(DeviceDesc &device,
                     const moert::CalibrationOptions &options) {
  MOE_ASSIGN_OR_RETURN(moert::Calibrator calibrator,
                       moert::Calibrator::create(device.cores, options));
  moert::CpuLimits limits = calibrator.measure();
  device.readBytesPerSecond = limits.readBytesPerSecond;
  device.int8OpsPerSecond = limits.int8OpsPerSecond;
  device.floatOpsPerSecond = limits.floatOpsPerSecond;
  device.bf16OpsPerSecond = limits.bf16OpsPerSecond;
  return Status::ok();
}

/// In what a cached description is of another machine; "" in nothing.
std::string differenceFromHere(const DeviceDesc &device) {
  if (std::string here = moert::cpuModelName(); device.title != here)
    return fmt::format("its CPU is {}, this one {}",
                       moert::quoted(device.title), moert::quoted(here));
  if (int here = int(moert::physicalCores().size()); device.cores != here)
    return fmt::format("it has {}, this machine {}",
                       moert::counted(device.cores, "core"), here);
  if (uint64_t here = moert::hostMemoryBytes(); device.memoryBytes != here)
    return fmt::format("it has {} of memory, this machine {}",
                       moert::humanBytes(double(device.memoryBytes)),
                       moert::humanBytes(double(here)));
  if (!moek::hostSupports(device.isa))
    return fmt::format("this CPU has no {}", moek::isaName(device.isa));
  return "";
}

/// What an earlier call kept, if it is of use here. Otherwise none, and a note
/// why; without one where there is no such file.
std::optional<TargetDesc> cachedTarget(const std::string &path,
                                       std::vector<std::string> &notes) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored))
    return std::nullopt;
  auto cached = loadTargetFile(path);
  std::string trouble = cached.isOk() ? differenceFromHere(cached->host())
                                      : cached.status().message();
  if (trouble.empty())
    return *std::move(cached);
  notes.push_back(
      cached.isOk()
          ? fmt::format("{}: describes another machine ({}); measured again",
                        path, trouble)
          : fmt::format("measured this machine again, as what was kept of it "
                        "cannot be used: {}",
                        trouble));
  return std::nullopt;
}
} // namespace

std::string nativeTargetFile() {
  std::filesystem::path folder;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    folder = cache;
  else if (const char *home = std::getenv("HOME"); home && *home)
    folder = std::filesystem::path(home) / ".cache";
  else
    return "";
  return (folder / "moec" / "native.json").string();
}

Status saveTargetFile(const std::string &path, const TargetDesc &target) {
  return moert::writeOutput(path, toJson(target));
}

Status saveNativeTarget(const TargetDesc &target) {
  std::string path = nativeTargetFile();
  if (path.empty())
    return Status(StatusCode::Io, "there is no folder to keep measurements in: "
                                  "neither XDG_CACHE_HOME nor HOME is set");
  std::error_code error; // creating the file fails where this did
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  return saveTargetFile(path, target);
}

StatusOr<TargetDesc> calibrateNative(const CalibrationProgress &progress,
                                     const NativeOptions &options) {
  moert::CalibrationOptions thorough;
  thorough.seconds = options.seconds;
  DeviceDesc device = detectDevice();
  if (progress)
    progress("multiply rates and read bandwidth of all cores");
  MOE_RETURN_IF_ERROR(measureDevice(device, thorough));
  // Of many cores only powers of two would matter, but plans pick any count.
  thorough.seconds = options.seconds * std::min(1.0, 8.0 / device.cores);
  MOE_ASSIGN_OR_RETURN(
      device.readBytesPerSecondByCores,
      moert::readBandwidthByThreads(device.cores, thorough, [&](int threads) {
        if (progress)
          progress(fmt::format("read bandwidth of {} of {}", threads,
                               moert::counted(device.cores, "core")));
      }));
  // Two measurements of the same thing: the better is nearer to the limit.
  double &all = device.readBytesPerSecondByCores.back();
  all = device.readBytesPerSecond = std::max(all, device.readBytesPerSecond);

  NativeGpus gpus = measureGpus(
      options.cudaLibrary, {.seconds = options.seconds * kGpuShareOfSeconds},
      [&](const auto &gpu) {
        if (progress)
          progress(fmt::format("memory and link of {}", gpu));
      });
  gpus.devices.push_back(std::move(device));
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget("native", std::move(gpus.devices)));
  target.notes = std::move(gpus.notes);
  return target;
}

std::string unusedGpuNote(const TargetDesc &native) {
  std::vector<std::string> titles;
  for (const DeviceDesc &device : native.devices)
    if (device.kind == DeviceKind::Cuda)
      titles.push_back(device.title);
  if (titles.empty())
    return "";
  return fmt::format("native plans for the CPU alone, as moert cannot run on "
                     "GPUs yet; to plan for {} too: --target-file {}",
                     fmt::join(titles, ", "),
                     moert::shellPath(nativeTargetFile()));
}

StatusOr<TargetDesc> nativeTarget() {
  std::string path = nativeTargetFile();
  std::vector<std::string> notes;
  if (auto cached = cachedTarget(path, notes))
    return *std::move(cached);
  moert::CalibrationOptions quick;
  quick.seconds = 0.05;
  DeviceDesc device = detectDevice();
  MOE_RETURN_IF_ERROR(measureDevice(device, quick));
  MOE_ASSIGN_OR_RETURN(TargetDesc target, makeTarget("native", {device}));
  // A cache that cannot be written costs a measurement next time, no more.
  if (Status saved = saveNativeTarget(target); !saved.isOk())
    notes.push_back(fmt::format("what was measured of this machine cannot be "
                                "kept, so that plans for native may differ "
                                "from one compilation to the next: {}",
                                saved.message()));
  else if (auto kept = loadTargetFile(path)) // text rounds measured doubles
    target = *std::move(kept);
  target.notes = std::move(notes);
  return target;
}

} // namespace moec
