#include "runtime/base/HostCpu.h"

#include "runtime/base/ControlGroups.h"
#include "runtime/base/Topology.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
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

namespace {
/// A core by the numbers of its main ID register.
struct ArmCore {
  unsigned long implementer, part;
  const char *name;
};
constexpr ArmCore armCores[] = {
    {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd05, "Cortex-A55"},
    {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd0b, "Cortex-A76"},
    {0x41, 0xd0c, "Neoverse-N1"}, {0x41, 0xd40, "Neoverse-V1"},
    {0x41, 0xd49, "Neoverse-N2"}, {0x41, 0xd4f, "Neoverse-V2"},
    {0x41, 0xd84, "Neoverse-V3"}, {0x41, 0xd85, "Cortex-X925"},
    {0x41, 0xd87, "Cortex-A725"}, {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1a"},
};

std::string armCoreName(unsigned long implementer, unsigned long part) {
  for (const ArmCore &core : armCores)
    if (core.implementer == implementer && core.part == part)
      return core.name;
  return fmt::format("Arm core {:#x}-{:#x}", implementer, part);
}
} // namespace

std::string cpuModelName(const std::string &processRoot) {
  std::ifstream file(processRoot + "/cpuinfo");
  std::vector<std::string> cores;
  unsigned long implementer = 0;
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos)
      continue;
    std::string value = line.substr(colon + 2);
    if (line.starts_with("model name"))
      return value;
    if (line.starts_with("CPU implementer"))
      implementer = std::strtoul(value.c_str(), nullptr, 0);
    if (!line.starts_with("CPU part"))
      continue;
    std::string name =
        armCoreName(implementer, std::strtoul(value.c_str(), nullptr, 0));
    if (std::ranges::find(cores, name) == cores.end())
      cores.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(cores, ", "));
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
    uint64_t kib = 0; // The file has a form such as "32768K".
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
