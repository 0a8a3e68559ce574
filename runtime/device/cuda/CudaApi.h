//===- CudaApi.h - The CUDA driver's binary interface -----------*- C++ -*-===//
//
// What we need of cuda.h, declared here so that building needs no CUDA. A test
// compares it with the real header where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAAPI_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAAPI_H

#include <cstddef>
#include <cstdint>

namespace moert::cu {

using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Graph = struct GraphTag *;
using GraphExec = struct GraphExecTag *;
using HostFunction = void (*)(void *data);

/// Those that are told apart; any other is printed as the driver names it.
enum Result : unsigned {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kAlreadyRegistered = 712,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
};

enum Attribute : unsigned {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kIntegrated = 18,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
/// Of cuStreamWaitValue32(): until what is there is, as a signed difference, no
/// less. Of cuStreamWriteValue32(): what came before is visible before it.
constexpr unsigned kWaitAtLeast = 0, kWriteInOrder = 0;
/// For all contexts; with an address on the device.
constexpr unsigned kHostPortable = 1, kHostMapped = 2;

enum FunctionAttribute : unsigned { kMaxDynamicSharedBytes = 8 };
/// Others' calls meanwhile do not matter.
enum CaptureMode : unsigned { kCaptureOfThisThread = 1 };

/// The driver's entry points.
struct Api {
#define MOE_CUDA_CALL(symbol, ...) Result (*symbol)(__VA_ARGS__) = nullptr;
#include "runtime/device/cuda/CudaApi.def"
};

} // namespace moert::cu

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAAPI_H
