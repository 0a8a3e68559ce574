#include "test/support/FakeCuda.h"

#include <cstring>

using namespace moert::cu;
using moetest::fakeCuda;
using moetest::FakeGpu;

namespace {
// Error codes of the real driver that the code under test does not name.
constexpr Result kInvalidValue = Result(1), kInvalidDevice = Result(101),
                 kInvalidContext = Result(201);

/// The devices whose contexts were pushed; the last one is current.
std::vector<Device> contexts;
/// Sizes by address; addresses start above any that is plausible by accident.
std::map<DevicePointer, uint64_t> allocations;
DevicePointer nextAddress = DevicePointer(1) << 40;
double now = 0; ///< Time of the simulated device in seconds.

Result begin(const char *symbol) {
  ++fakeCuda().calls[symbol];
  auto failure = fakeCuda().failures.find(symbol);
  return failure == fakeCuda().failures.end() ? kSuccess : failure->second;
}

/// Counts the call; returns an error if the test asked for it.
#define BEGIN()                                                                \
  if (Result failed = begin(__func__); failed != kSuccess)                     \
  return failed
/// Begins a call on a device or in a context.
#define BEGIN_ON(device)                                                       \
  BEGIN();                                                                     \
  if (device < 0 || size_t(device) >= fakeCuda().gpus.size())                  \
    return kInvalidDevice;                                                     \
  [[maybe_unused]] FakeGpu &gpu = fakeCuda().gpus[size_t(device)]
#define BEGIN_IN_CONTEXT()                                                     \
  if (contexts.empty())                                                        \
    return kInvalidContext;                                                    \
  BEGIN_ON(contexts.back())

Result copy(size_t bytes, double rate) {
  now += double(bytes) / rate;
  return kSuccess;
}

bool holds(DevicePointer pointer, size_t bytes) {
  auto found = allocations.find(pointer);
  return found != allocations.end() && bytes <= found->second;
}

Result copyText(const std::string &text, char *out, int length) {
  std::strncpy(out, text.c_str(), size_t(length));
  return kSuccess;
}
} // namespace

moetest::FakeCuda &moetest::fakeCuda() {
  static FakeCuda state;
  return state;
}

extern "C" {
Result cuInit(unsigned) {
  BEGIN();
  return kSuccess;
}
Result cuGetErrorName(Result result, const char **name) {
  *name = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == kNoDevice  ? "CUDA_ERROR_NO_DEVICE"
                                 : nullptr;
  return *name ? kSuccess : kInvalidValue;
}
Result cuGetErrorString(Result result, const char **text) {
  *text = result == kOutOfMemory ? "out of memory" : nullptr;
  return *text ? kSuccess : kInvalidValue;
}

Result cuDeviceGetCount(int *count) {
  BEGIN();
  *count = int(fakeCuda().gpus.size());
  return kSuccess;
}
Result cuDeviceGet(Device *device, int ordinal) {
  BEGIN_ON(ordinal);
  *device = ordinal;
  return kSuccess;
}
Result cuDeviceGetName(char *name, int length, Device device) {
  BEGIN_ON(device);
  return copyText(gpu.name, name, length);
}
Result cuDeviceTotalMem_v2(size_t *bytes, Device device) {
  BEGIN_ON(device);
  *bytes = gpu.memoryBytes;
  return kSuccess;
}
Result cuDeviceGetAttribute(int *value, Attribute attribute, Device device) {
  BEGIN_ON(device);
  *value = gpu.attributes[attribute];
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char *address, int length, Device device) {
  BEGIN_ON(device);
  return copyText(gpu.address, address, length);
}

Result cuDevicePrimaryCtxRetain(Context *context, Device device) {
  BEGIN_ON(device);
  // Contexts are never null, as those of a driver.
  *context = reinterpret_cast<Context>(uintptr_t(device) + 1);
  ++fakeCuda().live;
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(Device device) {
  BEGIN_ON(device);
  --fakeCuda().live;
  return kSuccess;
}
Result cuCtxPushCurrent_v2(Context context) {
  BEGIN();
  contexts.push_back(Device(reinterpret_cast<uintptr_t>(context)) - 1);
  ++fakeCuda().live;
  return kSuccess;
}
Result cuCtxPopCurrent_v2(Context *context) {
  BEGIN_IN_CONTEXT();
  *context = reinterpret_cast<Context>(uintptr_t(contexts.back()) + 1);
  contexts.pop_back();
  --fakeCuda().live;
  return kSuccess;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  BEGIN_IN_CONTEXT();
  *total = gpu.memoryBytes;
  *free = gpu.memoryBytes - gpu.usedBytes - fakeCuda().allocatedBytes;
  return kSuccess;
}
Result cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  BEGIN_IN_CONTEXT();
  if (bytes > gpu.memoryBytes - gpu.usedBytes - fakeCuda().allocatedBytes)
    return kOutOfMemory;
  *pointer = nextAddress;
  nextAddress += bytes;
  allocations[*pointer] = bytes;
  fakeCuda().allocatedBytes += bytes;
  return kSuccess;
}
Result cuMemFree_v2(DevicePointer pointer) {
  BEGIN_IN_CONTEXT();
  if (!holds(pointer, 0))
    return kInvalidValue;
  fakeCuda().allocatedBytes -= allocations[pointer];
  allocations.erase(pointer);
  return kSuccess;
}
Result cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  BEGIN_IN_CONTEXT();
  *pointer = new char; // Copies nothing to the memory.
  ++fakeCuda().live;
  return kSuccess;
}
Result cuMemFreeHost(void *pointer) {
  BEGIN_IN_CONTEXT();
  delete static_cast<char *>(pointer);
  --fakeCuda().live;
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes,
                            Stream) {
  BEGIN_IN_CONTEXT();
  return holds(to, bytes) && from ? copy(bytes, gpu.toDevice) : kInvalidValue;
}
Result cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes,
                            Stream) {
  BEGIN_IN_CONTEXT();
  return holds(from, bytes) && to ? copy(bytes, gpu.toHost) : kInvalidValue;
}
Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                            Stream) {
  BEGIN_IN_CONTEXT();
  return holds(to, bytes) && holds(from, bytes) && to != from
             ? copy(bytes, gpu.withinDevice)
             : kInvalidValue;
}

Result cuStreamCreate(Stream *stream, unsigned) {
  BEGIN_IN_CONTEXT();
  *stream = reinterpret_cast<Stream>(new char);
  ++fakeCuda().live;
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream stream) {
  BEGIN_IN_CONTEXT();
  delete reinterpret_cast<char *>(stream);
  --fakeCuda().live;
  return kSuccess;
}
Result cuEventCreate(Event *event, unsigned) {
  BEGIN_IN_CONTEXT();
  *event = reinterpret_cast<Event>(new double(0));
  ++fakeCuda().live;
  return kSuccess;
}
Result cuEventDestroy_v2(Event event) {
  BEGIN_IN_CONTEXT();
  delete reinterpret_cast<double *>(event);
  --fakeCuda().live;
  return kSuccess;
}
Result cuEventRecord(Event event, Stream) {
  BEGIN_IN_CONTEXT();
  *reinterpret_cast<double *>(event) = now;
  return kSuccess;
}
Result cuEventSynchronize(Event) {
  BEGIN_IN_CONTEXT();
  return kSuccess;
}

// Functions that only running a plan needs; test/softgpu implements them.
#define MOE_NOT_HERE(symbol, ...)                                              \
  Result symbol(__VA_ARGS__) { return Result(801); }
MOE_NOT_HERE(cuDriverGetVersion, int *)
MOE_NOT_HERE(cuMemHostRegister_v2, void *, size_t, unsigned)
MOE_NOT_HERE(cuMemHostUnregister, void *)
MOE_NOT_HERE(cuMemHostGetDevicePointer_v2, DevicePointer *, void *, unsigned)
MOE_NOT_HERE(cuStreamSynchronize, Stream)
MOE_NOT_HERE(cuStreamWaitEvent, Stream, Event, unsigned)
MOE_NOT_HERE(cuStreamWaitValue32_v2, Stream, DevicePointer, uint32_t, unsigned)
MOE_NOT_HERE(cuStreamWriteValue32_v2, Stream, DevicePointer, uint32_t, unsigned)
MOE_NOT_HERE(cuLaunchHostFunc, Stream, HostFunction, void *)
MOE_NOT_HERE(cuModuleLoadData, Module *, const void *)
MOE_NOT_HERE(cuModuleUnload, Module)
MOE_NOT_HERE(cuModuleGetFunction, Function *, Module, const char *)
MOE_NOT_HERE(cuFuncSetAttribute, Function, FunctionAttribute, int)
MOE_NOT_HERE(cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned,
             unsigned, unsigned, unsigned, Stream, void **, void **)
MOE_NOT_HERE(cuStreamBeginCapture_v2, Stream, CaptureMode)
MOE_NOT_HERE(cuStreamEndCapture, Stream, Graph *)
MOE_NOT_HERE(cuGraphDestroy, Graph)
MOE_NOT_HERE(cuGraphInstantiateWithFlags, GraphExec *, Graph,
             unsigned long long)
MOE_NOT_HERE(cuGraphExecDestroy, GraphExec)
MOE_NOT_HERE(cuGraphLaunch, GraphExec, Stream)
#undef MOE_NOT_HERE

#ifndef MOE_FAKE_CUDA_OLD
Result cuEventElapsedTime(float *milliseconds, Event from, Event to) {
  BEGIN_IN_CONTEXT();
  *milliseconds = float(
      (*reinterpret_cast<double *>(to) - *reinterpret_cast<double *>(from)) *
      1e3);
  return kSuccess;
}
#endif
} // extern "C"
