#include "runtime/base/HostCpu.h"

#include "runtime/base/ControlGroups.h"
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

std::vector<std::vector<int>> eachCore() {
  std::vector<std::vector<int>> cores;
  for (int cpu : physicalCores())
    cores.push_back({cpu});
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
/// Names of a control group's files, and of lines in its statistics that count
/// all groups below it too.
struct GroupFiles {
  const char *limit, *usage, *inactive, *active;
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "total_inactive_file",
                               "total_active_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current",
                               "inactive_file", "active_file"};

const GroupFiles &filesOf(int version) {
  return version == 1 ? kVersion1 : kVersion2;
}

uint64_t numberIn(const std::string &path) {
  // "max" (no limit) fails to parse.
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : 0;
}

/// Returns what a group uses and cannot give back: its cache of files counts as
/// free.
uint64_t usedBy(const std::string &folder, const GroupFiles &files) {
  uint64_t used = numberIn(folder + files.usage), cache = 0, value = 0;
  std::ifstream lines(folder + "/memory.stat");
  for (std::string key; lines >> key >> value;)
    if (key == files.inactive || key == files.active)
      cache += value;
  return used > cache ? used - cache : 0;
}
} // namespace

MemoryLimit hostMemoryLimit(const std::string &systemRoot,
                            const std::string &processRoot) {
  long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  MemoryLimit memory;
  if (pages > 0 && page > 0)
    memory.bytes = uint64_t(pages) * uint64_t(page);
  forEachControlGroup(
      "memory", systemRoot, processRoot,
      [&](const std::string &folder, int version) {
        uint64_t limit = numberIn(folder + filesOf(version).limit);
        if (limit > 0 && (memory.bytes == 0 || limit < memory.bytes))
          memory = {limit, true};
      });
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
  uint64_t free = hostMemoryLimit(systemRoot, processRoot).bytes;
  if (uint64_t available = memoryLine("MemAvailable:", processRoot);
      available > 0)
    free = free > 0 ? std::min(free, available) : available;
  forEachControlGroup("memory", systemRoot, processRoot,
                      [&](const std::string &folder, int version) {
                        const GroupFiles &files = filesOf(version);
                        uint64_t limit = numberIn(folder + files.limit);
                        uint64_t used = usedBy(folder, files);
                        // 0 would stand for an unknown number.
                        if (limit > 0 && limit < used + free)
                          free = limit > used ? limit - used : 1;
                      });
  return free;
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
