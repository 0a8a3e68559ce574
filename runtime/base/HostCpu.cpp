#include "runtime/base/HostCpu.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

namespace moert {

namespace {
/// The first number of a sysfs list such as "3,35" or "0-1"; -1 if unreadable.
int firstOfList(const std::string &path) {
  std::ifstream file(path);
  int first = -1;
  return file >> first ? first : -1;
}
} // namespace

std::vector<int> physicalCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return {0};
  std::vector<int> cores, leaders;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed))
      continue;
    int leader =
        firstOfList("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                    "/topology/thread_siblings_list");
    if (leader < 0)
      leader = cpu;
    if (std::ranges::find(leaders, leader) != leaders.end())
      continue;
    leaders.push_back(leader);
    cores.push_back(cpu);
  }
  return cores.empty() ? std::vector<int>{0} : cores;
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

int numaNodes() {
  int nodes = 0;
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(
           "/sys/devices/system/node", ignored)) {
    std::string name = entry.path().filename().string();
    nodes += name.starts_with("node") &&
             name.find_first_not_of("0123456789", 4) == std::string::npos;
  }
  return std::max(nodes, 1);
}

} // namespace moert
