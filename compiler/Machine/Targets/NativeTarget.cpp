#include "compiler/Machine/Targets/NativeTarget.h"

#include "compiler/Machine/Targets/NativeGpu.h"
#include "compiler/Machine/Targets/TargetJson.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/base/Topology.h"
#include "runtime/base/UserCache.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <unistd.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Seconds per measurement if a compilation waits for it.
constexpr double kQuickSeconds = 0.05;
/// Seconds per size of a kernel if a compilation waits: enough for some small
/// calls, or two of the largest.
constexpr double kBriefKernelSeconds = 0.0015;
constexpr double kMostBriefSeconds = 2;
/// No further round over the kernels begins after this time, even on a busy
/// machine.
constexpr std::chrono::duration<double> kMostKernelTime{8};
/// Copies reach a repeatability of 1 % sooner than reads by many cores.
constexpr double kGpuShareOfSeconds = 0.3;

/// Detects instruction set, cores, caches and memory; rates are not set.
DeviceDesc detectDevice() {
  DeviceDesc device;
  device.model = "native";
  device.title = moert::cpuModelName();
  device.kind = DeviceKind::Cpu;
  device.isa = moert::bestHostIsa();
  device.cores = int(moert::physicalCores().size());
  device.numaNodes = moert::countMemoryNodes();
  device.memoryBytes = moert::hostMemoryBytes();
  // An eighth, at most 8 GiB, is left for the system and other programs.
  device.reservedBytes =
      std::min<uint64_t>(device.memoryBytes / 8, uint64_t(8) << 30);
  moert::CacheSizes caches = moert::hostCaches();
  device.l1Bytes = caches.l1Bytes;
  device.l2Bytes = caches.l2Bytes;
  device.l3Bytes = caches.l3Bytes;
  return device;
}

/// Calls `measure`, which keeps the best of its results, until a call is
/// undisturbed or it was called `most` times. Returns the last call's
/// disturbance; `again` receives the earlier ones.
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

/// Raises the rates of all cores together to the measured ones: other programs
/// can only make a measurement slower.
StatusOr<moert::Disturbance>
measureDevice(DeviceDesc &device, const CpuMeasurement &cpu, double seconds) {
  MOE_ASSIGN_OR_RETURN(moert::CpuLimits limits,
                       cpu.limits(device.cores, seconds));
  auto raise = [](Peak &peak, double measured, const char *by) {
    peak.perSecond = std::max(peak.perSecond, measured);
    if (measured > 0)
      peak.source = fmt::format("measured: {}, all cores", by);
  };
  raise(device.read, limits.readBytesPerSecond, "a streaming read");
  raise(device.int8, limits.int8OpsPerSecond, "a loop of dot products");
  raise(device.float32, limits.floatOpsPerSecond, "a loop of FMAs");
  raise(device.bf16, limits.bf16OpsPerSecond, "a loop of dot products");
  return limits.disturbance;
}

/// Measures every kernel: in at least two rounds if there is time, and up to
/// `most` until one is undisturbed.
StatusOr<moert::Disturbance> measureKernels(DeviceDesc &device,
                                            const CpuMeasurement &cpu,
                                            bool brief, int most,
                                            const CalibrationProgress &progress,
                                            const CalibrationProgress &detail) {
  moert::Disturbance seen;
  if (!cpu.kernels)
    return seen;
  moert::KernelRates best;
  int least = brief ? 1 : std::min(most, 2);
  auto begin = std::chrono::steady_clock::now();
  for (int round = 1; round <= most; ++round) {
    std::string what =
        round == 1 ? "kernels" : fmt::format("kernels, round {}", round);
    if (progress)
      progress(what);
    MOE_ASSIGN_OR_RETURN(
        moert::KernelRates rates,
        cpu.kernels(device.cores, brief, [&](std::string_view kernel) {
          if (detail)
            detail(fmt::format("measuring {}: {}", what, kernel));
        }));
    seen = rates.disturbance;
    keepBest(best, rates);
    std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - begin;
    if (round >= least && (seen.isQuiet() || spent > kMostKernelTime))
      break;
  }
  device.kernels = std::move(best.kernels);
  device.overheads = best.overheads;
  return seen;
}

/// Returns whether files in `folder` are mapped with large pages, and so a
/// plan's weights too. Tests this with an unnamed file, so that none can be
/// left over.
bool mapsLargePages(const std::filesystem::path &folder) {
  constexpr size_t bytes = size_t(8) << 20;
  int file = folder.empty()
                 ? -1
                 : ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool large = false;
  std::string ones(bytes, 1);
  if (::write(file, ones.data(), bytes) == ssize_t(bytes))
    if (auto mapped =
            moert::MappedFile::open(fmt::format("/proc/self/fd/{}", file))) {
      uint64_t sum = 0;
      for (uint8_t byte : mapped->bytes())
        sum += byte;
      large = sum == bytes && 2 * mapped->pageUse().huge > bytes;
    }
  ::close(file);
  return large;
}

/// Raises the read bandwidths of 1, 2, ... cores to the measured ones where
/// those are higher.
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

/// Describes how a cached description differs from this machine; "" if it does
/// not.
std::string differenceFromHere(const TargetDesc &target,
                               const std::string &cudaLibrary) {
  const DeviceDesc &device = target.host();
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
  if (moek::Isa here = moert::bestHostIsa(); device.isa != here)
    return fmt::format("its kernels are for {}, this CPU's for {}",
                       moek::isaName(device.isa), moek::isaName(here));
  std::vector<std::string> gpus;
  for (const DeviceDesc &other : target.devices)
    if (other.kind == DeviceKind::Cuda)
      gpus.push_back(other.title);
  auto named = [](const std::vector<std::string> &titles) {
    return titles.empty() ? "no GPU"
                          : fmt::format("{}", fmt::join(titles, ", "));
  };
  if (std::vector<std::string> here = plannableGpus(cudaLibrary); gpus != here)
    return fmt::format("it has {}, this machine {}", named(gpus), named(here));
  return "";
}

/// Returns the description that an earlier call saved, if it is usable.
/// Otherwise returns none and adds a note, except if there is no such file.
std::optional<TargetDesc> cachedTarget(const std::string &path,
                                       bool wantsKernels,
                                       const std::string &cudaLibrary,
                                       std::vector<std::string> &notes) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored))
    return std::nullopt;
  auto cached = loadTargetFile(path);
  std::string trouble = cached.isOk() ? differenceFromHere(*cached, cudaLibrary)
                                      : cached.status().message();
  if (trouble.empty()) {
    if (!wantsKernels || cached->host().hasKernelList)
      return *std::move(cached);
    notes.push_back(fmt::format("{}: has no rates of kernels, as an earlier "
                                "version wrote it; measured again",
                                path));
    return std::nullopt;
  }
  notes.push_back(
      cached.isOk()
          ? fmt::format("{}: describes another machine ({}); measured again",
                        path, trouble)
          : fmt::format("measured this machine again, because its saved "
                        "description cannot be used: {}",
                        trouble));
  return std::nullopt;
}

/// Returns the description that was saved on a busy machine less than kBusyTime
/// ago, with a note.
std::optional<TargetDesc> busyTarget(bool wantsKernels,
                                     const std::string &cudaLibrary) {
  const std::string path = busyNativeFile();
  std::error_code error;
  const auto saved = std::filesystem::last_write_time(path, error);
  if (error)
    return std::nullopt;
  const auto age = std::chrono::floor<std::chrono::minutes>(
      std::filesystem::file_time_type::clock::now() - saved);
  if (age < std::chrono::minutes(0) || age >= kBusyTime)
    return std::nullopt;
  std::vector<std::string> ignored;
  auto target = cachedTarget(path, wantsKernels, cudaLibrary, ignored);
  if (target)
    target->notes.push_back(fmt::format(
        "other programs used this machine when it was measured {} ago, so "
        "plans may be for a slower one; it is measured again after {}, or now "
        "by moec calibrate",
        moert::counted(age.count(), "minute"),
        moert::counted((kBusyTime - age).count(), "minute")));
  return target;
}
} // namespace

/// Creates the folder if it does not exist. Returns "" if there is none.
static std::filesystem::path nativeTargetFolder() {
  std::filesystem::path folder =
      std::filesystem::path(nativeTargetFile()).parent_path();
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  return folder;
}

/// A file for descriptions of this machine.
static std::string cacheFile(std::string_view name) {
  const std::string folder = moert::userCacheFolder();
  if (folder.empty())
    return "";
  // Each --isa has a file of its own: what was measured under such a limit does
  // not describe the whole CPU.
  const std::optional<moek::Isa> most = moek::hostIsaLimit();
  return fmt::format("{}/{}{}{}.json", folder, name, most ? "-" : "",
                     most ? moek::isaName(*most) : "");
}

std::string nativeTargetFile() { return cacheFile("native"); }

std::string busyNativeFile() { return cacheFile("native-busy"); }

Status saveTargetFile(moert::OutputTarget to, const TargetDesc &target) {
  return moert::writeOutput(std::move(to), toJson(target));
}

/// Writes a description to a file of the cache folder.
static Status saveInCache(const std::string &path, const TargetDesc &target) {
  if (path.empty())
    return Status(StatusCode::Io, "there is no folder for measurements: "
                                  "neither XDG_CACHE_HOME nor HOME is set");
  std::error_code error; // An error shows again when the file is created.
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  return saveTargetFile(moert::OutputTarget::ofCache(path), target);
}

Status saveNativeTarget(const TargetDesc &target) {
  MOE_RETURN_IF_ERROR(saveInCache(nativeTargetFile(), target));
  std::error_code ignored;
  std::filesystem::remove(busyNativeFile(), ignored);
  return Status::ok();
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
      },
      [](int cores, bool brief,
         const std::function<void(std::string_view)> &progress) {
        moert::KernelRateOptions options;
        options.brief = brief;
        if (brief) { // A compilation waits for the result.
          options.seconds = kBriefKernelSeconds;
          options.mostSeconds = kMostBriefSeconds;
        }
        options.largePages = mapsLargePages(nativeTargetFolder());
        return moert::measureKernels(cores, options, progress);
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
  // For many cores powers of two would suffice, but plans may use any number.
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
  MOE_ASSIGN_OR_RETURN(moert::Disturbance ofKernels,
                       measureKernels(device, options.cpu, /*brief=*/false,
                                      options.measurements, progress,
                                      options.detail));
  // These are two measurements of the same rate; the higher one is closer to
  // the limit.
  double &all = device.readBytesPerSecondByCores.back();
  all = device.read.perSecond = std::max(all, device.read.perSecond);

  NativeGpus gpus = measureGpus(
      options.cudaLibrary, {.seconds = options.seconds * kGpuShareOfSeconds},
      [&](const auto &gpu) { say(fmt::format("memory and link of {}", gpu)); });
  gpus.devices.push_back(std::move(device));
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget("native", std::move(gpus.devices)));
  target.notes = std::move(gpus.notes);
  return Calibration{std::move(target), worse(worse(ofAll, ofEach), ofKernels)};
}

StatusOr<TargetDesc> assumedNative(const std::string &cudaLibrary) {
  // Rates of a core of a CPU of the middle class.
  constexpr double readBytes = 1e10, int8Ops = 2e11, floatOps = 5e10;
  DeviceDesc device = detectDevice();
  device.read.perSecond = readBytes * device.cores;
  device.int8.perSecond = int8Ops * device.cores;
  device.float32.perSecond = floatOps * device.cores;
  device.hasKernelList = true;
  std::vector<DeviceDesc> devices = assumedGpus(cudaLibrary);
  devices.push_back(std::move(device));
  return makeTarget("native", std::move(devices));
}

bool isNativeKnown(const std::string &cudaLibrary) {
  std::vector<std::string> ignored;
  return cachedTarget(nativeTargetFile(), /*wantsKernels=*/true, cudaLibrary,
                      ignored) ||
         busyTarget(/*wantsKernels=*/true, cudaLibrary);
}

StatusOr<TargetDesc> nativeTarget(const CpuMeasurement &cpu,
                                  const CalibrationProgress &progress,
                                  const std::string &cudaLibrary) {
  std::string path = nativeTargetFile();
  std::vector<std::string> notes;
  if (auto cached = cachedTarget(path, bool(cpu.kernels), cudaLibrary, notes))
    return *std::move(cached);
  if (auto cached = busyTarget(bool(cpu.kernels), cudaLibrary))
    return *std::move(cached);
  DeviceDesc device = detectDevice();
  std::string before;
  MOE_ASSIGN_OR_RETURN(
      moert::Disturbance disturbance,
      measureUntilQuiet(
          kMeasurements,
          [&] { return measureDevice(device, cpu, kQuickSeconds); },
          [&](const moert::Disturbance &seen) { before = seen.text(); }));
  MOE_ASSIGN_OR_RETURN(moert::Disturbance ofKernels,
                       measureKernels(device, cpu, /*brief=*/true,
                                      /*most=*/1, {}, progress));
  disturbance = worse(disturbance, ofKernels);
  NativeGpus gpus = measureGpus(cudaLibrary, {.seconds = kQuickSeconds},
                                [&](const std::string &gpu) {
                                  if (progress)
                                    progress("measuring " + gpu);
                                });
  std::ranges::move(gpus.notes, std::back_inserter(notes));
  gpus.devices.push_back(std::move(device));
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       makeTarget("native", std::move(gpus.devices)));
  target.notes = std::move(notes);
  if (!disturbance.isQuiet()) {
    // Disturbed rates would make the choice of kernels random.
    for (DeviceDesc &measured : target.devices) {
      measured.kernels.clear();
      measured.hasKernelList = true;
    }
    const bool isSaved = saveInCache(busyNativeFile(), target).isOk();
    if (auto kept = loadTargetFile(busyNativeFile()); isSaved && kept)
      target.devices = std::move(
          kept->devices); // Numbers as the file gives them, which are rounded.
    target.notes.push_back(fmt::format(
        "other programs use this machine ({} in the last of {} measurements); "
        "the best figures are used, without rates of kernels, {}: run moec "
        "calibrate when it is quiet",
        disturbance.text(), kMeasurements,
        isSaved
            ? fmt::format("for {}", moert::counted(kBusyTime.count(), "minute"))
            : "but not kept"));
    return target;
  }
  // Without a writable cache, the machine is only measured again next time.
  if (Status saved = saveNativeTarget(target); !saved.isOk())
    target.notes.push_back(fmt::format(
        "measurements of this machine cannot be saved, so plans for native may "
        "differ from one compilation to the next: {}",
        saved.message()));
  else if (auto kept = loadTargetFile(
               path)) // Read back, because the text has rounded numbers.
    target.devices = std::move(kept->devices);
  if (!before.empty())
    target.notes.push_back(fmt::format(
        "other programs used this machine ({}): it was measured again",
        before));
  return target;
}

} // namespace moec
