//===- Target.h - Machine descriptions --------------------------*- C++ -*-===//
//
// What the compiler knows of a machine. Descriptions are JSON files in this
// folder, one per device, that a user can copy and edit; "4090+xeon" joins
// them, "2x4090+xeon" repeats one, "4090:20GiB:pcie3+xeon:200GiB" changes the
// memory to plan with and the link, "native" is this machine. What
// kernels reach of a device is data too: of a class of cores, of memory or of
// links (classes/), which a description names. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGET_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGET_H

#include "kernels/KernelRate.h"
#include "kernels/Registry.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

enum class DeviceKind { Cpu, Cuda };

/// How sure it is what kernels reach: taken from something alike, computed from
/// published runs, or measured of our kernels on that machine.
enum class Basis { Unstated, Guessed, Derived, Measured };
std::string_view basisName(Basis basis); ///< "" for Unstated.
std::optional<Basis> basisFromName(std::string_view name);

/// A limit of a device: what it does at best and which part of that kernels
/// reach, where they were not measured themselves.
struct Peak {
  double perSecond = 0;
  double efficiency = 0; ///< 0: not stated; kAssumed is taken.
  std::string source;    ///< For people: measured, computed, published by whom.
  Basis basis = Basis::Unstated; ///< Of the efficiency.

  /// Of a file that states none: what our kernels reach of peaks measured by
  /// loops that do nothing else (bytes read from memory, dot products in
  /// registers), on the machines they were made on.
  static constexpr double kAssumed = 0.5;
  static constexpr double kAssumedRead = 0.85;

  double planned(double assumed = kAssumed) const {
    return perSecond * (efficiency > 0 ? efficiency : assumed);
  }
};

/// How the memory nodes of a CPU hold weights: wherever they come to lie; each
/// node what its own cores read; pages of all of them in turn; or one node's
/// memory and cores alone.
enum class NodeUse { Any, Split, Interleaved, One };
inline constexpr NodeUse kNodeUses[] = {NodeUse::Any, NodeUse::Split,
                                        NodeUse::Interleaved, NodeUse::One};
std::string_view nodeUseName(NodeUse use); ///< "any", "split", ...
std::optional<NodeUse> nodeUseFromName(std::string_view name);

/// One memory with the processors that read it at full speed.
struct DeviceDesc {
  std::string name;  ///< Unique in a target: "cpu0", "gpu0", "gpu1".
  std::string model; ///< "xeon", "4090": the description's name.
  std::string title; ///< For people: "NVIDIA GeForce RTX 4090".
  DeviceKind kind = DeviceKind::Cpu;
  moek::Isa isa = moek::Isa::Ref; ///< The best the device runs.
  int arch = 0;  ///< CUDA compute capability * 10 (89 for 8.9), else 0.
  int cores = 1; ///< Physical cores, or SMs.
  int numaNodes = 1;
  NodeUse nodeUse = NodeUse::Any;
  uint64_t memoryBytes = 0;
  /// Bytes of memoryBytes that planning leaves to the system and the driver.
  uint64_t reservedBytes = 0;
  /// Data caches: l1 and l2 of a core, l3 of all that share one; 0: not known.
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
  Peak read; ///< Bytes, all cores together.
  /// Of 1, 2, ... cores; empty where not measured.
  std::vector<double> readBytesPerSecondByCores;
  Peak int8;    ///< Operations, multiply and add counted as 2.
  Peak float32; ///< F32, on a GPU whichever kernels use.
  Peak bf16;    ///< BF16 dot products; 0: has none.
  /// Weights of less than 8 bits that cores take apart, however few rows they
  /// are multiplied with; 0: not a limit.
  Peak unpack;
  /// Bytes that the cores of one of several memory nodes read of its own
  /// memory, while others do nothing, and of another's.
  Peak nodeRead, nodeLink;
  /// To the host (a CPU has none: 0).
  Peak link;
  double linkLatencySeconds = 0;
  /// Measured, of every kernel that plans for it may name. Empty where that
  /// was not done: kernels then reach their share of the peaks above.
  std::vector<moert::KernelRate> kernels;
  /// Whether its file has a list of them, even an empty one, which leaves the
  /// choice of kernels to instruction sets.
  bool statesKernels = false;
  moert::StepOverheads overheads;
  /// What one sentence says of all figures.
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
  /// How many of the devices are GPUs.
  size_t gpuCount() const;
  const DeviceDesc *find(std::string_view deviceName) const;
};

/// Names of the shipped descriptions, in alphabetical order. They, and other
/// names that a description has, may be written in capitals and without
/// hyphens.
std::vector<std::string> targetNames();

/// Told what is measured next: "read bandwidth of 2 of 8 cores".
using CalibrationProgress = std::function<void(const std::string &)>;

/// The devices of "[Nx]name[:SIZE][:LINK][+...]", which need not make a
/// machine: to show and to edit. SIZE is the memory to plan with: a GPU has no
/// more than its own, a CPU's machine may. LINK is a class such as pcie3. An
/// unknown name is a Usage error that suggests the nearest one. `progress`
/// hears of what "native" has to measure.
moert::StatusOr<TargetDesc>
describeParts(std::string_view spec, const CalibrationProgress &progress = {});

/// Leaves `bytes` of every device of the kind to plan with, at most what it
/// has. Usage where the target has none of the kind.
moert::Status limitMemory(TargetDesc &target, DeviceKind kind, uint64_t bytes);

/// describeParts() for a machine to compile for: two CPUs or none are a Usage
/// error too.
moert::StatusOr<TargetDesc>
resolveTarget(std::string_view spec, const CalibrationProgress &progress = {});

/// A description is no longer than this.
inline constexpr uint64_t kMostTargetBytes = uint64_t(1) << 20;

/// Reads a description (--target-file) from the text of `path`: one device
/// object or {"devices": [...]}, where several CPUs share the machine's cores.
/// Unknown keys and wrong types are errors.
moert::StatusOr<TargetDesc> parseTarget(const std::string &text,
                                        const std::string &path);
/// The same for the file at `path`, "-" or a FIFO.
moert::StatusOr<TargetDesc> loadTargetFile(const std::string &path);

/// One device's or target's description as JSON text, as loadTargetFile reads.
std::string toJson(const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGET_H
