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

} // namespace moert

#endif // MOE_RUNTIME_BASE_HOSTCPU_H
