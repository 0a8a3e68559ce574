//===- HostCpu.h - Cores and memory of this machine -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_HOSTCPU_H
#define MOE_RUNTIME_BASE_HOSTCPU_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// One logical CPU of each physical core that this process may run on, in
/// ascending order; hyper-thread siblings are left out. Never empty.
std::vector<int> physicalCores();

/// The processor's brand string, or "" where the system does not tell.
std::string cpuModelName();

/// Memory that this process may use at most; `bytes` is 0 where the system does
/// not tell.
struct MemoryLimit {
  uint64_t bytes = 0;
  bool ofGroup = false; ///< A control group's limit, not all of the machine's.
};
/// The machine's memory, or the lowest limit of the control groups that the
/// process is in. The roots are where the system describes the machine and the
/// process; tests describe others.
MemoryLimit hostMemoryLimit(const std::string &systemRoot = "/sys",
                            const std::string &processRoot = "/proc");
/// Of a line of meminfo such as "MemAvailable:  123 kB", in bytes; 0 where
/// there is none.
uint64_t memoryLine(std::string_view key,
                    const std::string &processRoot = "/proc");
/// What of the limit other programs leave now, the page cache being free; 0
/// where the system does not tell.
uint64_t freeHostBytes(const std::string &systemRoot = "/sys",
                       const std::string &processRoot = "/proc");
inline uint64_t hostMemoryBytes() { return hostMemoryLimit().bytes; }

/// Data caches as the first CPU sees them: l1 and l2 of a core, l3 of all cores
/// that share one. 0 for what does not exist or the system does not tell.
struct CacheSizes {
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};
CacheSizes hostCaches();

} // namespace moert

#endif // MOE_RUNTIME_BASE_HOSTCPU_H
