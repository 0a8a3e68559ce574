//===- Target.h - Machine descriptions --------------------------*- C++ -*-===//
//
// What the compiler knows of a machine. Descriptions are JSON files in this
// folder, one per device, that a user can copy and edit; "4090+xeon" joins
// them, "2x4090+xeon" repeats one, "native" is this machine's CPU. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_TARGETS_TARGET_H
#define MOE_COMPILER_TARGETS_TARGET_H

#include "kernels/Registry.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

enum class DeviceKind { Cpu, Cuda };

/// One memory with the processors that read it at full speed. Rates are
/// measured (sustained), not vendor peaks.
struct DeviceDesc {
  std::string name;  ///< Unique in a target: "cpu0", "gpu0", "gpu1".
  std::string model; ///< "xeon", "4090": the description's name.
  std::string title; ///< For people: "NVIDIA GeForce RTX 4090".
  DeviceKind kind = DeviceKind::Cpu;
  moek::Isa isa = moek::Isa::Ref; ///< The best the device runs.
  int arch = 0;  ///< CUDA compute capability * 10 (89 for 8.9), else 0.
  int cores = 1; ///< Physical cores, or SMs.
  int numaNodes = 1;
  uint64_t memoryBytes = 0;
  /// Bytes of memoryBytes that planning leaves to the system and the driver.
  uint64_t reservedBytes = 0;
  /// Data caches: l1 and l2 of a core, l3 of all that share one; 0: not known.
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
  double readBytesPerSecond = 0; ///< All cores together.
  /// Of 1, 2, ... cores; empty where not measured.
  std::vector<double> readBytesPerSecondByCores;
  double int8OpsPerSecond = 0;  ///< Multiply and add counted as 2.
  double floatOpsPerSecond = 0; ///< F32 or BF16, whichever kernels use.
  double bf16OpsPerSecond = 0;  ///< BF16 dot products; 0: has none.
  /// To the host (a CPU has none: 0).
  double linkBytesPerSecond = 0;
  double linkLatencySeconds = 0;
  /// Where the figures come from, for people: measured, computed, published.
  std::string source;

  uint64_t budgetBytes() const {
    return memoryBytes > reservedBytes ? memoryBytes - reservedBytes : 0;
  }
};

struct TargetDesc {
  std::string name;                ///< As the user wrote it.
  std::vector<DeviceDesc> devices; ///< GPUs first, then CPUs; the host last.
  /// What the user should know of how it was resolved.
  std::vector<std::string> notes;

  const DeviceDesc &host() const { return devices.back(); }
  const DeviceDesc *find(std::string_view deviceName) const;
};

/// Names of the shipped descriptions, in alphabetical order.
std::vector<std::string> targetNames();

/// The devices of "[Nx]name[+[Nx]name...]", which need not make a machine: to
/// show and to edit. An unknown name is a Usage error that suggests the nearest
/// one.
moert::StatusOr<TargetDesc> describeParts(std::string_view spec);

/// describeParts() for a machine to compile for: two CPUs or none are a Usage
/// error too.
moert::StatusOr<TargetDesc> resolveTarget(std::string_view spec);

/// Reads a description from a file (--target-file), "-" or a FIFO: one device
/// object or {"devices": [...]}, where several CPUs share the machine's cores.
/// Unknown keys and wrong types are errors.
moert::StatusOr<TargetDesc> loadTargetFile(const std::string &path);

/// One device's or target's description as JSON text, as loadTargetFile reads.
std::string toJson(const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_TARGETS_TARGET_H
