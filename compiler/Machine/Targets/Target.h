//===- Target.h - Machine descriptions --------------------------*- C++ -*-===//
//
// The compiler's knowledge of a machine. Descriptions are JSON files in this
// folder, one per device, which users can copy and edit. "4090+xeon" joins
// them, "2x4090+xeon" repeats one, "4090:20GiB:pcie3+xeon:200GiB" changes the
// usable memory and the link, and "native" is this machine. Efficiencies of
// kernels are data too: they belong to classes of cores, memories or links
// (classes/), which a description names. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGET_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGET_H

#include "kernels/KernelRate.h"
#include "kernels/Registry.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

enum class DeviceKind { Cpu, Cuda };

/// How certain an efficiency or a rate is: taken from a similar device, derived
/// from published runs, predicted by the software GPU's clock (test/softgpu),
/// or measured with our kernels on that machine.
enum class Basis { Unstated, Guessed, Derived, Simulated, Measured };
std::string_view basisName(Basis basis); ///< "" for Unstated.
std::optional<Basis> basisFromName(std::string_view name);

/// A limit of a device: its peak rate, and the fraction of it that kernels
/// reach if they were not calibrated themselves.
struct Peak {
  double perSecond = 0;
  double efficiency = 0; ///< 0: not stated; an assumed value is used.
  std::string source;    ///< Origin: measured, computed or published by whom.
  Basis basis = Basis::Unstated; ///< How certain the efficiency is.

  /// Efficiencies for files that state none: what our kernels reached, on the
  /// machines on which they were developed, of peaks measured with loops that
  /// do nothing else (bytes read from memory, dot products in registers).
  static constexpr double kAssumed = 0.5;
  static constexpr double kAssumedRead = 0.85;

  double planned(double assumed = kAssumed) const {
    return perSecond * (efficiency > 0 ? efficiency : assumed);
  }
};

/// How a CPU with several memory nodes stores weights: anywhere; each node's
/// memory has the weights that its own cores read; pages are interleaved over
/// all nodes; or everything is in the memory of one node, and only its cores
/// are used.
enum class NodeUse { Any, Split, Interleaved, One };
inline constexpr NodeUse kNodeUses[] = {NodeUse::Any, NodeUse::Split,
                                        NodeUse::Interleaved, NodeUse::One};
std::string_view nodeUseName(NodeUse use); ///< "any", "split", ...
std::optional<NodeUse> nodeUseFromName(std::string_view name);

/// The disk that model files are on, as rows of a table are read from it: each
/// by itself, many of them at the same time.
struct Storage {
  double bytesPerSecond = 0, readsPerSecond = 0; ///< 0: not stated.

  /// What files that state nothing get: an NVMe disk of the middle range on
  /// PCIe 3 or 4, with some ten reads of a page in flight.
  static constexpr double kAssumedBytes = 3e9, kAssumedReads = 1e5;
  /// A system reads whole pages.
  static constexpr double kPage = 4096;

  /// Returns the seconds of `reads` reads of `bytes` together.
  double seconds(double reads, double bytes) const {
    double rate = bytesPerSecond > 0 ? bytesPerSecond : kAssumedBytes;
    double most = readsPerSecond > 0 ? readsPerSecond : kAssumedReads;
    return std::max(reads / most, std::max(bytes, reads * kPage) / rate);
  }
};

/// A memory, or a GPU's share in the host's, and the processors that read it at
/// full speed.
struct DeviceDesc {
  std::string name;  ///< Unique in a target: "cpu0", "gpu0", "gpu1".
  std::string model; ///< The name of the description: "xeon", "4090".
  std::string title; ///< For reports: "NVIDIA GeForce RTX 4090".
  DeviceKind kind = DeviceKind::Cpu;
  moek::Isa isa = moek::Isa::Ref; ///< The best one that the device supports.
  int arch = 0;  ///< CUDA compute capability * 10 (89 for 8.9), else 0.
  int cores = 1; ///< Physical cores, or SMs.
  int numaNodes = 1;
  NodeUse nodeUse = NodeUse::Any;
  uint64_t memoryBytes = 0;
  /// Bytes of memoryBytes that plans leave to the system and the driver.
  uint64_t reservedBytes = 0;
  /// Data caches: l1 and l2 per core, l3 of all cores that share one; 0:
  /// unknown.
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
  Peak read; ///< Bytes per second that all cores read together.
  /// Read rates of 1, 2, ... cores; empty if not measured.
  std::vector<double> readBytesPerSecondByCores;
  Peak int8; ///< INT8 operations per second; a multiply-add counts as 2.
  /// F32 operations, or those of the float type that a GPU's kernels use.
  Peak float32;
  Peak bf16; ///< BF16 dot products; 0: not supported.
  /// Rate at which cores unpack weights of less than 8 bits, however few rows
  /// they are multiplied with; 0: not a limit.
  Peak unpack;
  /// Bytes that the cores of one memory node read from its own memory while
  /// other nodes are idle, and from another node's memory.
  Peak nodeRead, nodeLink;
  /// Whether a GPU has no memory of its own but the host's, which joining the
  /// devices copies to memoryBytes and reservedBytes. It has no link.
  bool sharesMemory = false;
  /// Link to the host; 0 for a CPU and for a GPU that shares its memory.
  Peak link;
  /// Latency of a copy to or from the host; with shared memory, that of handing
  /// work over.
  double linkLatencySeconds = 0;
  Storage storage; ///< The disk of a CPU's machine.
  /// Rates of kernels that plans for the device may use; of a CPU, of all. A
  /// kernel without rates reaches its efficiency times the peaks above.
  std::vector<moert::KernelRate> kernels;
  /// Whether the rates of kernels are simulated or measured.
  Basis kernelBasis = Basis::Measured;
  /// Whether the file has a list of kernels. An empty list leaves the choice of
  /// kernels to instruction sets.
  bool hasKernelList = false;
  moert::StepOverheads overheads;
  /// A sentence about the origin of all figures.
  std::string source;

  uint64_t budgetBytes() const {
    return memoryBytes > reservedBytes ? memoryBytes - reservedBytes : 0;
  }
};

struct TargetDesc {
  std::string name;                ///< The text that the user gave.
  std::vector<DeviceDesc> devices; ///< GPUs first, then CPUs; the host last.
  /// Notes for the user about how the target was resolved.
  std::vector<std::string> notes;

  const DeviceDesc &host() const { return devices.back(); }
  /// Returns the index of the device whose memory a device has: the host's, or
  /// its own.
  size_t memoryOf(size_t device) const {
    return devices[device].sharesMemory ? devices.size() - 1 : device;
  }
  /// Number of GPUs among the devices.
  size_t gpuCount() const;
  const DeviceDesc *find(std::string_view deviceName) const;
};

/// Names of the shipped descriptions, in alphabetical order. Users may write
/// them, and a description's other names, in capitals and without hyphens.
std::vector<std::string> targetNames();

/// Other names of a shipped description, as its file lists them.
std::vector<std::string> targetAliases(std::string_view name);

/// Receives what is measured next, such as "read bandwidth of 2 of 8 cores".
using CalibrationProgress = std::function<void(const std::string &)>;

/// Returns the devices of "[Nx]name[:SIZE][:LINK][+...]", to show or to edit;
/// they need not form a machine. SIZE is the usable memory, which for a CPU may
/// exceed that of the description, but not for a GPU. LINK is a class such as
/// pcie3. An unknown name is a Usage error that suggests the closest one.
/// `progress` receives what is measured for "native".
moert::StatusOr<TargetDesc>
describeParts(std::string_view spec, const CalibrationProgress &progress = {});

/// Limits the usable memory of every device of the kind to `bytes`, or to what
/// it has. Fails with Usage if the target has no such device.
moert::Status limitMemory(TargetDesc &target, DeviceKind kind, uint64_t bytes);

/// Like describeParts(), for a machine to compile for: also fails with Usage
/// unless there is exactly one CPU.
moert::StatusOr<TargetDesc>
resolveTarget(std::string_view spec, const CalibrationProgress &progress = {});

/// Returns the machine of resolveTarget() as it is detected, with assumed
/// rates, if it would have to be measured first: for checks before that, which
/// takes seconds. None if nothing would be measured. Fails as resolveTarget().
moert::StatusOr<std::optional<TargetDesc>>
unmeasuredTarget(std::string_view spec);

/// Most bytes of a description.
inline constexpr uint64_t kMostTargetBytes = uint64_t(1) << 20;

/// Parses a description (--target-file) from the text of `path`: one device
/// object or {"devices": [...]}, in which several CPUs share the machine's
/// cores. Unknown keys and wrong types are errors.
moert::StatusOr<TargetDesc> parseTarget(const std::string &text,
                                        const std::string &path);
/// Reads and parses the file at `path`, which may be "-" or a FIFO.
moert::StatusOr<TargetDesc> loadTargetFile(const std::string &path);

/// Returns the description as JSON text for loadTargetFile().
std::string toJson(const TargetDesc &target);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGET_H
