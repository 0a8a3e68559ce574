//===- CudaApi.h - The CUDA driver's binary interface -----------*- C++ -*-===//
//
// The parts of cuda.h that we use, declared here so that building needs no
// CUDA. A test compares them with the real header if there is one.
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

/// Results that we distinguish; others are printed under the driver's name.
enum Result : unsigned {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidImage = 200,
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
  /// Whether the driver ends kernels that take seconds, because the GPU drives
  /// a display.
  kHasTimeLimit = 17,
  kIntegrated = 18,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2;
/// For cuStreamWaitValue32(): wait until the value, compared as a signed
/// difference, is at least the given one. For cuStreamWriteValue32(): earlier
/// writes become visible first.
constexpr unsigned kWaitAtLeast = 0, kWriteInOrder = 0;
/// Memory that is pinned for all contexts, and that has a device address.
constexpr unsigned kHostPortable = 1, kHostMapped = 2;

enum FunctionAttribute : unsigned { kMaxDynamicSharedBytes = 8 };
/// Capture ignores calls by other threads.
enum CaptureMode : unsigned { kCaptureOfThisThread = 1 };

/// An attribute of a launch. Its value is a union of 64 bytes.
struct LaunchAttribute {
  unsigned id = 0;
  alignas(8) int value = 0;
  char others[60] = {};
};
/// The attribute of a launch that may begin while the one before it ends
/// (programmatic dependent launch; kernels/cuda/LaunchOrder.cuh).
constexpr unsigned kProgrammaticSerialization = 6;
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// The driver's entry points.
struct Api {
#define MOE_CUDA_CALL(symbol, ...) Result (*symbol)(__VA_ARGS__) = nullptr;
#include "runtime/device/cuda/CudaApi.def"
};

} // namespace moert::cu

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAAPI_H
