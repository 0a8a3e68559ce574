#include "runtime/device/cuda/CudaDriver.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>

namespace moert {

namespace {
/// Buffer size for a device's name and for its address.
constexpr int kTextBytes = 256;
constexpr double kKilo = 1e3;
} // namespace

StatusOr<CudaDriver> CudaDriver::load(const std::string &library) {
  // The driver starts threads, so its code must stay loaded after dlclose().
  Library handle(
      ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE),
      &::dlclose);
  if (!handle)
    return Status(
        StatusCode::WrongMachine,
        fmt::format("this machine has no CUDA driver: {}", ::dlerror()));
  CudaDriver driver(std::move(handle));
  MOE_RETURN_IF_ERROR(driver.findCalls(library));
  MOE_RETURN_IF_ERROR(
      driver.check(driver.api_.cuInit(0), "starting the CUDA driver"));
  MOE_RETURN_IF_ERROR(driver.check(
      driver.api_.cuDeviceGetCount(&driver.deviceCount_), "counting GPUs"));
  if (driver.deviceCount_ < 1)
    return Status(StatusCode::WrongMachine, "the CUDA driver finds no GPU");
  return driver;
}

Status CudaDriver::findCalls(const std::string &library) {
  auto find = [&](const char *symbol, auto &call) {
    void *address = ::dlsym(library_.get(), symbol);
    static_assert(sizeof(address) == sizeof(call));
    std::memcpy(&call, &address, sizeof(call));
    return address != nullptr;
  };
#define MOE_CUDA_CALL(symbol, ...)                                             \
  if (!find(#symbol, api_.symbol))                                             \
    return Status(StatusCode::Unsupported,                                     \
                  fmt::format("{} lacks {}: its driver is older than CUDA "    \
                              "11.4, update it",                               \
                              library, #symbol));
#define MOE_CUDA_OPTIONAL_CALL(symbol, ...) find(#symbol, api_.symbol);
#include "runtime/device/cuda/CudaApi.def"
  return Status::ok();
}

Status CudaDriver::check(cu::Result result, std::string_view action) const {
  if (result == cu::kSuccess)
    return Status::ok();
  const char *name = nullptr, *text = nullptr;
  // Name and text stay null for a code that the driver does not know.
  if (api_.cuGetErrorName(result, &name) != cu::kSuccess || !name)
    name = "an unknown CUDA error";
  if (api_.cuGetErrorString(result, &text) != cu::kSuccess || !text)
    text = "no description";
  auto code = [&] {
    switch (result) {
    case cu::kOutOfMemory:
      return StatusCode::DoesNotFit;
    case cu::kNoDevice:
      return StatusCode::WrongMachine;
    case cu::kNotSupported:
    case cu::kCaptureUnsupported:
      return StatusCode::Unsupported;
    default:
      return StatusCode::Io;
    }
  };
  return Status(code(), fmt::format("{}: {} ({}: {})", action, name,
                                    unsigned(result), text));
}

StatusOr<CudaGpu> CudaDriver::describe(int ordinal) const {
  CudaGpu device;
  MOE_RETURN_IF_ERROR(
      check(api_.cuDeviceGet(&device.handle, ordinal), "opening the GPU"));
  char text[kTextBytes] = {};
  MOE_RETURN_IF_ERROR(
      check(api_.cuDeviceGetName(text, kTextBytes - 1, device.handle),
            "reading the GPU's name"));
  device.name = text;

  size_t bytes = 0;
  MOE_RETURN_IF_ERROR(check(api_.cuDeviceTotalMem_v2(&bytes, device.handle),
                            "reading the size of the GPU's memory"));
  device.memoryBytes = bytes;

  // Missing attributes become 0; the caller decides whether that is an error.
  auto attribute = [&](cu::Attribute which) {
    int value = 0;
    cu::Result result = api_.cuDeviceGetAttribute(&value, which, device.handle);
    return result == cu::kSuccess ? std::max(value, 0) : 0;
  };
  device.arch =
      10 * attribute(cu::kCapabilityMajor) + attribute(cu::kCapabilityMinor);
  device.multiprocessors = attribute(cu::kMultiprocessors);
  device.l2Bytes = uint64_t(attribute(cu::kL2Bytes));
  device.clockHz = kKilo * attribute(cu::kClockKhz);
  device.memoryClockHz = kKilo * attribute(cu::kMemoryClockKhz);
  device.memoryBusBits = attribute(cu::kMemoryBusBits);
  device.sharesHostMemory = attribute(cu::kIntegrated) != 0;
  device.hasTimeLimit = attribute(cu::kHasTimeLimit) != 0;
  std::fill(std::begin(text), std::end(text), '\0');
  if (api_.cuDeviceGetPCIBusId(text, kTextBytes - 1, device.handle) ==
      cu::kSuccess)
    device.pciAddress = text;
  return device;
}

} // namespace moert
