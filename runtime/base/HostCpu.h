//===- HostCpu.h - Cores and memory of this machine -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_HOSTCPU_H
#define MOE_RUNTIME_BASE_HOSTCPU_H

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// One logical CPU of each physical core that this process may run on, in
/// ascending order; hyper-thread siblings are left out. Never empty.
std::vector<int> physicalCores();

/// The processor's brand string, or "" where the system does not tell.
std::string cpuModelName();

/// Bytes of memory this process may use: the machine's, or its control
/// group's limit where that is lower.
uint64_t hostMemoryBytes();

/// Data caches as the first CPU sees them: l1 and l2 of a core, l3 of all cores
/// that share one. 0 for what does not exist or the system does not tell.
struct CacheSizes {
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};
CacheSizes hostCaches();

} // namespace moert

#endif // MOE_RUNTIME_BASE_HOSTCPU_H
