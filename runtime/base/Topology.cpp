#include "runtime/base/Topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace moert {

namespace {
/// Returns the numbers of a sysfs list such as "0-3,8"; none if it is
/// unreadable.
std::vector<int> readList(const std::string &path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  std::vector<int> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int first = 0, last = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc())
      break;
    last = first;
    at = parsed.ptr;
    if (at < end && *at == '-') {
      parsed = std::from_chars(at + 1, end, last);
      if (parsed.ec != std::errc())
        break;
      at = parsed.ptr;
    }
    for (int i = first; i <= last && last - first < CPU_SETSIZE; ++i)
      numbers.push_back(i);
    at += at < end && *at == ',';
  }
  return numbers;
}

/// Returns the numbers of the folders node0, node1, ... in ascending order.
std::vector<int> memoryNodes(const std::string &root) {
  std::vector<int> nodes;
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(
           root + "/devices/system/node", ignored)) {
    std::string name = entry.path().filename().string();
    int node = 0;
    const char *end = name.data() + name.size();
    if (name.starts_with("node") &&
        std::from_chars(name.data() + 4, end, node).ptr == end &&
        name.size() > 4)
      nodes.push_back(node);
  }
  std::ranges::sort(nodes);
  return nodes;
}
} // namespace

std::vector<int> allowedCpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask))
        cpus.push_back(cpu);
  return cpus.empty() ? std::vector<int>{0} : cpus;
}

Topology readTopology(std::span<const int> allowed, const std::string &root) {
  std::vector<int> nodes = memoryNodes(root);
  std::map<int, int> nodeOf;
  for (int node : nodes)
    for (int cpu : readList(root + "/devices/system/node/node" +
                            std::to_string(node) + "/cpulist"))
      nodeOf[cpu] = node;
  Topology topology;
  for (int cpu : allowed) {
    std::vector<int> siblings =
        readList(root + "/devices/system/cpu/cpu" + std::to_string(cpu) +
                 "/topology/thread_siblings_list");
    auto node = nodeOf.find(cpu);
    topology.push_back({cpu, siblings.empty() ? cpu : siblings.front(),
                        node != nodeOf.end() ? node->second
                        : nodes.empty()      ? 0
                                             : nodes.front()});
  }
  std::ranges::sort(topology, {}, &CpuPlace::cpu);
  return topology;
}

int countMemoryNodes(const std::string &root) {
  return std::max(static_cast<int>(memoryNodes(root).size()), 1);
}

std::vector<WorkerPlace> placeWorkers(const Topology &topology, int workers) {
  struct Node {
    /// One CPU of each core, then the hyper-thread siblings.
    std::vector<int> cpus;
    size_t cores = 0, taken = 0;
  };
  std::map<int, Node> nodes;
  std::vector<int> seen;
  for (bool siblings : {false, true})
    for (const CpuPlace &place : topology) {
      Node &node = nodes[place.node];
      if (std::ranges::find(node.cpus, place.cpu) != node.cpus.end())
        continue;
      bool first = std::ranges::find(seen, place.core) == seen.end();
      if (!first && !siblings)
        continue;
      seen.push_back(place.core);
      node.cpus.push_back(place.cpu);
      node.cores += first;
    }
  for (int i = 0; i < workers; ++i) {
    // Choose the node with the largest fraction of free cores; if none has a
    // free core, the node with the fewest workers per core.
    Node *best = nullptr;
    for (auto &[number, node] : nodes)
      if (node.taken < node.cpus.size() &&
          (!best || node.taken * best->cores < best->taken * node.cores))
        best = &node;
    if (!best)
      break;
    ++best->taken;
  }
  std::vector<WorkerPlace> places;
  for (const auto &[number, node] : nodes)
    for (size_t i = 0; i < node.taken; ++i)
      places.push_back({node.cpus[i], number});
  return places;
}

namespace {
/// Values of the kernel's interface: a policy and a bit mask of nodes (not
/// libnuma's).
enum MemoryPolicy { kDefault = 0, kPreferred = 1, kInterleave = 3 };

void setMemoryPolicy(MemoryPolicy policy, std::span<const int> nodes) {
  constexpr int kMostNodes = 1024, kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask = {};
  for (int node : nodes)
    if (node >= 0 && node < kMostNodes)
      mask[size_t(node / kBits)] |= 1ul << (node % kBits);
  bool hasNodes = policy != kDefault;
  (void)::syscall(SYS_set_mempolicy, policy, hasNodes ? mask.data() : nullptr,
                  hasNodes ? kMostNodes : 0);
}
} // namespace

void preferMemoryNode(int node) {
  if (node < 0)
    setMemoryPolicy(kDefault, {});
  else
    setMemoryPolicy(kPreferred, {&node, 1});
}

void interleaveMemoryNodes(std::span<const int> nodes) {
  setMemoryPolicy(kInterleave, nodes);
}

} // namespace moert
