#include "runtime/base/HostCpu.h"

#include "runtime/base/Topology.h"

#include <algorithm>
#include <cstdlib>
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

namespace {
/// Lowers `memory` to the limits in `file` of `group`, a path below `root`, and
/// of the groups that contain it.
void lowerToGroups(const std::string &root, std::string group, const char *file,
                   MemoryLimit &memory) {
  for (;;) {
    // "max" (no limit) fails to parse.
    std::ifstream limitFile(root + group + "/" + file);
    if (uint64_t limit = 0; limitFile >> limit && limit > 0 &&
                            (memory.bytes == 0 || limit < memory.bytes))
      memory = {limit, true};
    if (group.empty())
      return;
    group.resize(group.find_last_of('/'));
  }
}
} // namespace

MemoryLimit hostMemoryLimit(const std::string &systemRoot,
                            const std::string &processRoot) {
  long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  MemoryLimit memory;
  if (pages > 0 && page > 0)
    memory.bytes = uint64_t(pages) * uint64_t(page);
  // Lines are such as "0::/user.slice" (version 2) and "7:memory:/docker/0123"
  // (version 1). In a container the path may not exist; its root then has the
  // limit.
  std::ifstream groups(processRoot + "/self/cgroup");
  std::string root = systemRoot + "/fs/cgroup";
  lowerToGroups(root, "", "memory.max", memory);
  for (std::string line; std::getline(groups, line);) {
    size_t controllers = line.find(':');
    size_t path = line.find(":/", controllers);
    if (path == std::string::npos)
      continue;
    std::string group = line.substr(path + 1);
    if (line.substr(controllers, path - controllers + 1) == "::")
      lowerToGroups(root, group, "memory.max", memory);
    else if (line.find("memory", controllers) < path)
      lowerToGroups(root + "/memory", group, "memory.limit_in_bytes", memory);
  }
  return memory;
}

uint64_t memoryLine(std::string_view key, const std::string &processRoot) {
  std::ifstream file(processRoot + "/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key))
      return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  return 0;
}

uint64_t freeHostBytes(const std::string &systemRoot,
                       const std::string &processRoot) {
  uint64_t limit = hostMemoryLimit(systemRoot, processRoot).bytes;
  uint64_t available = memoryLine("MemAvailable:", processRoot);
  if (limit == 0 || available == 0)
    return std::max(limit, available);
  return std::min(limit, available);
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
