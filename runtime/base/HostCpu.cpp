#include "runtime/base/HostCpu.h"

#include "runtime/base/Topology.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <unistd.h>

namespace moert {

std::vector<int> physicalCores() {
  Topology topology = readTopology(allowedCpus());
  std::vector<int> cores, leaders;
  for (const CpuPlace &place : topology) {
    if (std::ranges::find(leaders, place.core) != leaders.end())
      continue;
    leaders.push_back(place.core);
    cores.push_back(place.cpu);
  }
  return cores;
}

std::string cpuModelName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "";
}

uint64_t hostMemoryBytes() {
  long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  uint64_t bytes = pages > 0 && page > 0 ? uint64_t(pages) * uint64_t(page) : 0;
  // Version 2 of control groups; "max" (no limit) fails to parse.
  std::ifstream limitFile("/sys/fs/cgroup/memory.max");
  if (uint64_t limit = 0; limitFile >> limit && limit > 0)
    bytes = bytes == 0 ? limit : std::min(bytes, limit);
  return bytes;
}

CacheSizes hostCaches() {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    std::ifstream levelFile(folder + "/level"), typeFile(folder + "/type"),
        sizeFile(folder + "/size");
    int level = 0;
    std::string type;
    uint64_t kib = 0; // written as "32768K"
    if (!(levelFile >> level && typeFile >> type && sizeFile >> kib) ||
        type == "Instruction")
      continue;
    if (level == 1)
      sizes.l1Bytes = kib << 10;
    else if (level == 2)
      sizes.l2Bytes = kib << 10;
    else if (level == 3)
      sizes.l3Bytes = kib << 10;
  }
  return sizes;
}

} // namespace moert
