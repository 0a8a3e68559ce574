#include "compiler/Machine/Targets/NativeGpu.h"

#include "compiler/Machine/Targets/TargetClasses.h"
#include "compiler/Machine/Targets/TargetJson.h"
#include "runtime/base/Text.h"
#include "runtime/device/cuda/CudaPeak.h"
#include "runtime/device/cuda/PciLink.h"

#include <algorithm>
#include <fmt/format.h>

using moert::CudaDriver;
using moert::CudaGpu;
using moert::CudaLimits;
using moert::CudaPeak;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Device memory to keep free for code, libraries and the growth of other
/// programs, in addition to the memory in use.
constexpr uint64_t kHeadroomBytes = uint64_t(512) << 20;

/// Describes which rates were measured, how, and which were computed.
std::string sourceOf(const CudaGpu &device, const CudaLimits &limits,
                     const CudaPeak &peak, const DeviceDesc &desc) {
  std::string share;
  if (double most = device.peakBytesPerSecond(); most > 0)
    share = fmt::format(", {:.0f} % of the {:.0f} GB/s of its memory",
                        100 * limits.memoryBytesPerSecond / most, most / 1e9);
  std::string link = moert::pciLink(device.pciAddress);
  std::string linkText =
      desc.sharesMemory
          ? "no link: the driver says that it shares the host's memory"
          : fmt::format(
                "link: the slowest of pinned copies, {:.1f} GB/s to the device "
                "and {:.1f} GB/s to the host, and of reads by a kernel, {}{}",
                limits.toDeviceBytesPerSecond / 1e9,
                limits.toHostBytesPerSecond / 1e9,
                limits.kernelReadBytesPerSecond > 0
                    ? fmt::format("{:.1f} GB/s",
                                  limits.kernelReadBytesPerSecond / 1e9)
                    : "not measured",
                link.empty() ? "" : " (" + link + ")");
  return fmt::format(
      "read: measured by copies within the device, bytes read and written{}; "
      "{}; int8 and float: computed, not measured: {} SMs x {} and {} "
      "operations a clock at {:.2f} GHz, of which kernels are assumed to reach "
      "{:.0f} % and {:.0f} %",
      share, linkText, device.multiprocessors, peak.int8Ops, peak.floatOps,
      device.clockHz / 1e9, 100 * desc.int8.efficiency,
      100 * desc.float32.efficiency);
}

DeviceDesc descriptionOf(const CudaGpu &device, const CudaLimits &limits,
                         const CudaPeak &peak) {
  DeviceDesc desc;
  desc.model = "native";
  desc.title = moert::escaped(device.name);
  desc.kind = DeviceKind::Cuda;
  desc.isa = moek::Isa::Cuda;
  desc.arch = device.arch;
  desc.cores = device.multiprocessors;
  desc.sharesMemory = device.sharesHostMemory;
  if (!desc.sharesMemory) {
    desc.memoryBytes = device.memoryBytes;
    desc.reservedBytes = device.memoryBytes -
                         std::min(device.memoryBytes, limits.freeBytes) +
                         kHeadroomBytes;
  }
  desc.read = {limits.memoryBytesPerSecond, 1, "measured", Basis::Measured};
  double clocks = device.multiprocessors * device.clockHz;
  desc.int8 = {clocks * peak.int8Ops, 0, "computed"};
  desc.float32 = {clocks * peak.floatOps, 0, "computed"};
  double link =
      std::min(limits.toDeviceBytesPerSecond, limits.toHostBytesPerSecond);
  // Launches that stream experts read them with kernels, not with copies.
  if (limits.kernelReadBytesPerSecond > 0)
    link = std::min(link, limits.kernelReadBytesPerSecond);
  if (!desc.sharesMemory)
    desc.link = {link, 1, "measured", Basis::Measured};
  desc.linkLatencySeconds = limits.copyLatencySeconds;
  // The class gives the efficiency for peaks that were not measured.
  if (std::string name = classOfArch(device.arch); !name.empty())
    (void)applyClass(name, desc);
  desc.source = sourceOf(device, limits, peak, desc);
  return desc;
}

/// Fails with Unsupported for a GPU that plans do not support.
StatusOr<CudaPeak> peakOf(const CudaGpu &device) {
  std::optional<CudaPeak> peak = moert::cudaPeak(device.arch);
  if (!peak)
    return Status(StatusCode::Unsupported,
                  fmt::format("has compute capability {}.{}, whose rates are "
                              "not known",
                              device.arch / 10, device.arch % 10));
  return *peak;
}

StatusOr<DeviceDesc> measureGpu(const CudaDriver &driver, const CudaGpu &device,
                                const moert::CudaCalibrationOptions &options) {
  MOE_ASSIGN_OR_RETURN(CudaPeak peak, peakOf(device));
  MOE_ASSIGN_OR_RETURN(CudaLimits limits,
                       measureCudaDevice(driver, device, options));
  DeviceDesc desc = descriptionOf(device, limits, peak);
  // Values from a driver may be absurd; the file must remain readable.
  MOE_RETURN_IF_ERROR(
      parseDevices(toJson({"native", {desc}, {}}), "as measured").status());
  return desc;
}
} // namespace

NativeGpus
measureGpus(const std::string &cudaLibrary,
            const moert::CudaCalibrationOptions &options,
            const std::function<void(const std::string &)> &progress) {
  NativeGpus gpus;
  StatusOr<CudaDriver> driver = CudaDriver::load(cudaLibrary);
  if (!driver.isOk()) {
    if (driver.status().code() != StatusCode::WrongMachine)
      gpus.notes.push_back("GPUs are left out: " + driver.status().message());
    return gpus;
  }
  for (int i = 0; i < driver->deviceCount(); ++i) {
    std::string name = fmt::format("GPU {}", i);
    auto leaveOut = [&](const Status &why) {
      gpus.notes.push_back(
          fmt::format("{} is left out: {}", name, why.message()));
    };
    StatusOr<CudaGpu> device = driver->describe(i);
    if (!device.isOk()) {
      leaveOut(device.status());
      continue;
    }
    name += fmt::format(" ({})", moert::escaped(device->name));
    progress(name);
    StatusOr<DeviceDesc> desc = measureGpu(*driver, *device, options);
    if (desc.isOk())
      gpus.devices.push_back(*std::move(desc));
    else
      leaveOut(desc.status());
  }
  return gpus;
}

std::vector<DeviceDesc> assumedGpus(const std::string &cudaLibrary) {
  // Typical values of a GPU of the middle class.
  constexpr double memory = 5e11, link = 2e10, latency = 2e-5;
  std::vector<DeviceDesc> gpus;
  if (StatusOr<CudaDriver> driver = CudaDriver::load(cudaLibrary))
    for (int i = 0; i < driver->deviceCount(); ++i)
      if (StatusOr<CudaGpu> device = driver->describe(i))
        if (StatusOr<CudaPeak> peak = peakOf(*device))
          gpus.push_back(descriptionOf(*device,
                                       {.memoryBytesPerSecond = memory,
                                        .toDeviceBytesPerSecond = link,
                                        .toHostBytesPerSecond = link,
                                        .copyLatencySeconds = latency,
                                        .freeBytes = device->memoryBytes},
                                       *peak));
  return gpus;
}

std::vector<std::string> plannableGpus(const std::string &cudaLibrary) {
  std::vector<std::string> titles;
  for (DeviceDesc &gpu : assumedGpus(cudaLibrary))
    titles.push_back(std::move(gpu.title));
  return titles;
}

} // namespace moec
