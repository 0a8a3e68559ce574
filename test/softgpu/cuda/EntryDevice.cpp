//===- EntryDevice.cpp - Driver calls: errors, devices, contexts ----------===//

#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/State.h"

#include <cstring>

using namespace softcuda;

namespace {
struct Error {
  Result code;
  const char *name, *text;
};
constexpr Error kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {kTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kMisaligned, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing "
     "stream"},
    {kUpdateFailure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which "
     "violated constraints specific to instantiated graph update"},
};

const Error *errorOf(int code) {
  for (const Error &error : kErrors)
    if (error.code == code)
      return &error;
  return nullptr;
}

Gpu *gpuOf(CUdevice device) {
  auto &gpus = state().gpus;
  return device >= 0 && size_t(device) < gpus.size()
             ? gpus[size_t(device)].get()
             : nullptr;
}

int copyText(const std::string &text, char *out, int length) {
  if (length <= 0)
    return kInvalidValue;
  std::strncpy(out, text.c_str(), size_t(length));
  out[length - 1] = '\0';
  return kSuccess;
}

/// Returns a device attribute as the architecture has it.
int attributeOf(const Gpu &gpu, int attribute) {
  const GpuOptions &o = gpu.options;
  int arch = o.gpu.arch, optIn = int(softgpu::sharedLimit(arch));
  bool isServer = arch == 80 || arch == 90 || arch == 100 || arch == 103;
  switch (attribute) {
  case 1: // Threads of a block.
  case 2:
  case 3:
    return 1024;
  case 4:
    return 64;
  case 5:
    return 0x7FFFFFFF;
  case 6:
  case 7:
    return 65535;
  case 8:
    return 48 << 10;
  case 10:
    return 32;
  case 12: // Registers of a block.
    return 65536;
  case 13:
    return o.clockKhz;
  case 16:
    return o.multiprocessors;
  case 17:
    return o.hasTimeLimit;
  case 18:
    return o.isIntegrated;
  case 19: // Whether host memory can be mapped.
  case 31: // Whether kernels run concurrently.
  case 41: // Whether addresses are unified.
    return 1;
  case 36:
    return o.memoryClockKhz;
  case 37:
    return o.memoryBusBits;
  case 38:
    return o.l2Bytes;
  case 39: // Threads of a multiprocessor.
    return arch < 80 ? 1024 : isServer ? 2048 : 1536;
  case 40: // Number of copy engines.
    return 2;
  case 75:
    return arch / 10;
  case 76:
    return arch % 10;
  case 81: // Shared memory of a multiprocessor.
    return optIn + 1024;
  case 82:
    return 65536;
  case 97:
    return optIn;
  case 99: // Whether host memory can be registered.
    return 1;
  case 106: // Blocks of a multiprocessor.
    return arch < 80 ? 16 : isServer ? 32 : 24;
  case 111: // Reserved shared memory of a block.
    return 1024;
  case 113: // Whether host memory can be registered read-only.
    return state().options.registersReadOnly;
  default:
    return 0;
  }
}
} // namespace

extern "C" {

int cuInit(unsigned) {
  SOFTCUDA_BEGIN(false);
  bool runs = softgpu::isSoftGpuSupported() && !state().gpus.empty();
  return runs ? kSuccess : kNoDevice;
}
int cuDriverGetVersion(int *version) {
  SOFTCUDA_BEGIN(false);
  *version = state().options.driverVersion;
  return kSuccess;
}
int cuGetErrorName(int result, const char **name) {
  const Error *error = errorOf(result);
  *name = error ? error->name : nullptr;
  return error ? kSuccess : kInvalidValue;
}
int cuGetErrorString(int result, const char **text) {
  const Error *error = errorOf(result);
  *text = error ? error->text : nullptr;
  return error ? kSuccess : kInvalidValue;
}

int cuDeviceGetCount(int *count) {
  SOFTCUDA_BEGIN(false);
  *count = int(state().gpus.size());
  return kSuccess;
}
int cuDeviceGet(CUdevice *device, int ordinal) {
  SOFTCUDA_BEGIN(false);
  *device = ordinal;
  return gpuOf(ordinal) ? kSuccess : kInvalidDevice;
}
int cuDeviceGetName(char *name, int length, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  return gpu ? copyText(gpu->options.name, name, length) : kInvalidDevice;
}
int cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  if (!gpu)
    return kInvalidDevice;
  *bytes = gpu->options.memoryBytes;
  return kSuccess;
}
int cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  if (!gpu)
    return kInvalidDevice;
  *value = attributeOf(*gpu, attribute);
  return kSuccess;
}
int cuDeviceGetPCIBusId(char *address, int length, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  return gpu ? copyText(gpu->options.pciAddress, address, length)
             : kInvalidDevice;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  if (!gpuOf(device))
    return kInvalidDevice;
  std::memset(uuid, 0, 16);
  uuid[15] = uint8_t(device + 1);
  return kSuccess;
}
int cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  SOFTCUDA_BEGIN(false);
  *can = 0;
  return gpuOf(device) && gpuOf(peer) ? kSuccess : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  if (!gpu)
    return kInvalidDevice;
  ++gpu->retained;
  *context = gpu;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  if (!gpu || !gpu->retained)
    return gpu ? kInvalidContext : kInvalidDevice;
  if (--gpu->retained == 0)
    for (const std::string &leak : liveOf(gpu))
      state().find("the context ended with " + leak);
  return kSuccess;
}
int cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) {
  SOFTCUDA_BEGIN(false);
  return gpuOf(device) ? kSuccess : kInvalidDevice;
}
int cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  SOFTCUDA_BEGIN(false);
  Gpu *gpu = gpuOf(device);
  if (!gpu)
    return kInvalidDevice;
  *flags = 0;
  *active = gpu->retained != 0;
  return kSuccess;
}

int cuCtxPushCurrent_v2(CUcontext context) {
  SOFTCUDA_BEGIN(false);
  if (!context)
    return kInvalidContext;
  contextsOfThisThread().push_back(static_cast<Gpu *>(context));
  return kSuccess;
}
int cuCtxPopCurrent_v2(CUcontext *context) {
  SOFTCUDA_BEGIN(false);
  auto &contexts = contextsOfThisThread();
  if (contexts.empty())
    return kInvalidContext;
  if (context)
    *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
int cuCtxSetCurrent(CUcontext context) {
  SOFTCUDA_BEGIN(false);
  auto &contexts = contextsOfThisThread();
  if (!contexts.empty())
    contexts.pop_back();
  if (context)
    contexts.push_back(static_cast<Gpu *>(context));
  return kSuccess;
}
int cuCtxGetCurrent(CUcontext *context) {
  SOFTCUDA_BEGIN(false);
  *context = currentGpu();
  return kSuccess;
}
int cuCtxGetDevice(CUdevice *device) {
  SOFTCUDA_BEGIN(true);
  *device = currentGpu()->ordinal;
  return kSuccess;
}
int cuCtxSynchronize() {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  drain(*currentGpu());
  std::lock_guard lock(state().log);
  return currentGpu()->error;
}

} // extern "C"
