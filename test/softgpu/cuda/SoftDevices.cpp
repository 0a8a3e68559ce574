//===- SoftDevices.cpp - moert with software GPUs -------------------------===//
//
// Linked into moert-soft. A plan's GPUs are software GPUs with the properties
// that the plan describes and the memory that it may use. Their findings are
// printed at the end and make the program fail.
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/MakeDevices.h"
#include "runtime/plan/PlanAccess.h"
#include "test/softgpu/cuda/SoftCuda.h"

#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>

#define MOE_MAKE_DEVICES                                                       \
  "_ZN5moert11makeDevicesERKNS_4PlanERKNS_11WeightFilesENS_13DeviceOptionsE"

namespace moert {
StatusOr<DeviceList>
onHardware(const Plan &plan, const WeightFiles &files,
           DeviceOptions options) asm("__real_" MOE_MAKE_DEVICES);
StatusOr<DeviceList>
inSoftware(const Plan &plan, const WeightFiles &files,
           DeviceOptions options) asm("__wrap_" MOE_MAKE_DEVICES);
} // namespace moert

using namespace moert;

namespace {
/// Memory of a GPU that a driver and other programs use.
constexpr uint64_t kTaken = uint64_t(1) << 29;

struct TellsFindings {
  ~TellsFindings() {
    std::vector<std::string> findings = softcuda::findings();
    for (const std::string &finding : findings)
      std::fprintf(stderr, "software GPU: %s\n", finding.c_str());
    std::fflush(nullptr);
    if (!findings.empty())
      ::_exit(1);
  }
};

/// Sets up software GPUs for the plan; returns the path of their driver
/// library.
std::string makeSoftGpus(const fb::Plan &plan) {
  softcuda::Options options;
  options.timing = softcuda::Timing::Early;
  options.gpus.clear();
  for (const fb::Device *device : *plan.devices())
    if (device->kind() == fb::DeviceKind::Cuda) {
      softcuda::GpuOptions gpu;
      gpu.name = fmt::format("software sm_{}", device->arch());
      gpu.gpu.arch = device->arch();
      gpu.isIntegrated = device->shares_memory();
      gpu.gpu.isCounting = false; // The totals are not used.
      gpu.multiprocessors = device->multiprocessors();
      gpu.usedBytes = kTaken;
      gpu.memoryBytes = device->memory_bytes() + 2 * kTaken;
      options.gpus.push_back(std::move(gpu));
    }
  softcuda::reset(std::move(options));
  for (uint32_t i = 0; i < count(plan.modules()); ++i)
    for (const fb::Image *image : *plan.modules()->Get(i)->images())
      softcuda::addCubin(
          {reinterpret_cast<const char *>(image->cubin()->data()),
           image->cubin()->size()},
          image->ptx()->str());
  static TellsFindings atTheEnd;
  Dl_info library{};
  ::dladdr(reinterpret_cast<void *>(&softcuda::findings), &library);
  return library.dli_fname ? library.dli_fname : "";
}
} // namespace

StatusOr<DeviceList> moert::inSoftware(const Plan &plan,
                                       const WeightFiles &files,
                                       DeviceOptions options) {
  for (const fb::Device *device : *plan.table().devices())
    if (device->kind() == fb::DeviceKind::Cuda) {
      options.cudaLibrary = makeSoftGpus(plan.table());
      break;
    }
  return onHardware(plan, files, std::move(options));
}
