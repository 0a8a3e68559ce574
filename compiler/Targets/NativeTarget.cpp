#include "compiler/Targets/NativeTarget.h"

#include "compiler/Targets/NativeGpu.h"
#include "compiler/Targets/TargetJson.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"

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
/// Of a measurement while a compile waits for it.
constexpr double kQuickSeconds = 0.05;
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

/// Calls `measure`, which keeps the best of what it finds, until nobody
/// disturbs it or it has been called `most` times. Returns the last call's
/// disturbance; `again` hears of those before.
StatusOr<moert::Disturbance> measureUntilQuiet(
    int most, const std::function<StatusOr<moert::Disturbance>()> &measure,
    const std::function<void(const moert::Disturbance &)> &again) {
  for (int left = most;;) {
    MOE_ASSIGN_OR_RETURN(moert::Disturbance disturbance, measure());
    if (disturbance.isQuiet() || --left == 0)
      return disturbance;
    again(disturbance);
  }
}

/// Raises the rates of all cores together to what is measured: others only ever
/// slow a measurement down.
StatusOr<moert::Disturbance>
measureDevice(DeviceDesc &device, const CpuMeasurement &cpu, double seconds) {
  MOE_ASSIGN_OR_RETURN(moert::CpuLimits limits,
                       cpu.limits(device.cores, seconds));
  auto raise = [](double &rate, double measured) {
    rate = std::max(rate, measured);
  };
  raise(device.readBytesPerSecond, limits.readBytesPerSecond);
  raise(device.int8OpsPerSecond, limits.int8OpsPerSecond);
  raise(device.floatOpsPerSecond, limits.floatOpsPerSecond);
  raise(device.bf16OpsPerSecond, limits.bf16OpsPerSecond);
  return limits.disturbance;
}

/// The same for read bandwidth by number of cores.
StatusOr<moert::Disturbance>
measureReadByCores(DeviceDesc &device, const CpuMeasurement &cpu,
                   double seconds, const std::function<void(int)> &progress) {
  MOE_ASSIGN_OR_RETURN(std::vector<moert::Rate> measured,
                       cpu.readByCores(device.cores, seconds, progress));
  std::vector<double> &rates = device.readBytesPerSecondByCores;
  rates.resize(measured.size());
  moert::Disturbance worst;
  for (size_t i = 0; i < measured.size(); ++i) {
    rates[i] = std::max(rates[i], measured[i].best);
    worst = worse(worst, measured[i].disturbance());
  }
  return worst;
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

CpuMeasurement CpuMeasurement::ofThisMachine() {
  auto forSeconds = [](double seconds) {
    moert::CalibrationOptions options;
    options.seconds = seconds;
    return options;
  };
  return {
      [=](int cores, double seconds) -> StatusOr<moert::CpuLimits> {
        MOE_ASSIGN_OR_RETURN(
            moert::Calibrator calibrator,
            moert::Calibrator::create(cores, forSeconds(seconds)));
        return calibrator.measure();
      },
      [=](int cores, double seconds, const std::function<void(int)> &progress) {
        return moert::readBandwidthByThreads(cores, forSeconds(seconds),
                                             progress);
      }};
}

StatusOr<Calibration> calibrateNative(const CalibrationProgress &progress,
                                      const NativeOptions &options) {
  auto say = [&](const std::string &what) {
    if (progress)
      progress(what);
  };
  auto again = [&](const moert::Disturbance &disturbance) {
    say(fmt::format("again, as other programs use this machine: {}",
                    disturbance.text()));
  };
  DeviceDesc device = detectDevice();
  MOE_ASSIGN_OR_RETURN(
      moert::Disturbance ofAll,
      measureUntilQuiet(
          options.measurements,
          [&] {
            say("multiply rates and read bandwidth of all cores");
            return measureDevice(device, options.cpu, options.seconds);
          },
          again));
  // Of many cores only powers of two would matter, but plans pick any count.
  double brief = options.seconds * std::min(1.0, 8.0 / device.cores);
  MOE_ASSIGN_OR_RETURN(
      moert::Disturbance ofEach,
      measureUntilQuiet(
          options.measurements,
          [&] {
            return measureReadByCores(
                device, options.cpu, brief, [&](int cores) {
                  say(fmt::format("read bandwidth of {} of {}", cores,
                                  moert::counted(device.cores, "core")));
                });
          },
          again));
  // Two measurements of the same thing: the better is nearer to the limit.
  double &all = device.readBytesPerSecondByCores.back();
  all = device.readBytesPerSecond = std::max(all, device.readBytesPerSecond);

  NativeGpus gpus = measureGpus(
      options.cudaLibrary, {.seconds = options.seconds * kGpuShareOfSeconds},
      [&](const auto &gpu) { say(fmt::format("memory and link of {}", gpu)); });
  gpus.devices.push_back(std::move(device));
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget("native", std::move(gpus.devices)));
  target.notes = std::move(gpus.notes);
  return Calibration{std::move(target), worse(ofAll, ofEach)};
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

StatusOr<TargetDesc> nativeTarget(const CpuMeasurement &cpu) {
  std::string path = nativeTargetFile();
  std::vector<std::string> notes;
  if (auto cached = cachedTarget(path, notes))
    return *std::move(cached);
  DeviceDesc device = detectDevice();
  std::string before;
  MOE_ASSIGN_OR_RETURN(
      moert::Disturbance disturbance,
      measureUntilQuiet(
          kMeasurements,
          [&] { return measureDevice(device, cpu, kQuickSeconds); },
          [&](const moert::Disturbance &seen) { before = seen.text(); }));
  MOE_ASSIGN_OR_RETURN(TargetDesc target, makeTarget("native", {device}));
  target.notes = std::move(notes);
  if (!disturbance.isQuiet()) {
    target.notes.push_back(fmt::format(
        "other programs use this machine ({} in the last of {} measurements); "
        "the best figures are used this time, but not kept: run moec calibrate "
        "when it is quiet",
        disturbance.text(), kMeasurements));
    return target;
  }
  // A cache that cannot be written costs a measurement next time, no more.
  if (Status saved = saveNativeTarget(target); !saved.isOk())
    target.notes.push_back(fmt::format(
        "what was measured of this machine cannot be kept, so that plans for "
        "native may differ from one compilation to the next: {}",
        saved.message()));
  else if (auto kept = loadTargetFile(path)) // text rounds measured doubles
    target.devices = std::move(kept->devices);
  if (!before.empty())
    target.notes.push_back(fmt::format(
        "other programs used this machine ({}): it was measured again",
        before));
  return target;
}

} // namespace moec
