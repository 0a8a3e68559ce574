//===- HostCpu.h - Cores and memory of this machine -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_HOSTCPU_H
#define MOE_RUNTIME_BASE_HOSTCPU_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Returns one logical CPU for each physical core that this process may run on,
/// without hyper-thread siblings, in ascending order. Never empty.
std::vector<int> physicalCores();

/// Returns one list for each of physicalCores(), for WorkerPool::create().
std::vector<std::vector<int>> eachCore();

/// Returns the processor's brand string, or "" if it is unknown. Arm CPUs have
/// none: their cores' names are returned, as in "Cortex-X925, Cortex-A725".
std::string cpuModelName(const std::string &processRoot = "/proc");

/// Memory that this process may use at most; `bytes` is 0 if it is unknown.
struct MemoryLimit {
  uint64_t bytes = 0;
  /// Whether a control group's limit applies, not the machine's.
  bool isControlGroup = false;
};
/// Returns the machine's memory or the lowest limit of the process's control
/// groups. The roots are those of the system's descriptions of machine and
/// process; tests use others.
MemoryLimit hostMemoryLimit(const std::string &systemRoot = "/sys",
                            const std::string &processRoot = "/proc");
/// Returns the bytes in a line of meminfo such as "MemAvailable:  123 kB", or 0
/// if there is no such line.
uint64_t memoryLine(std::string_view key,
                    const std::string &processRoot = "/proc");
/// Returns the part of the limit that is not in use now, on the machine and in
/// the control groups; the page cache counts as free. Returns 0 if it is
/// unknown.
uint64_t freeHostBytes(const std::string &systemRoot = "/sys",
                       const std::string &processRoot = "/proc");
inline uint64_t hostMemoryBytes() { return hostMemoryLimit().bytes; }

/// Sizes of data caches, as seen by the first CPU: l1 and l2 of a core, l3 of
/// all cores that share it. 0 for a cache that does not exist or is unknown.
struct CacheSizes {
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};
CacheSizes hostCaches();

} // namespace moert

#endif // MOE_RUNTIME_BASE_HOSTCPU_H
