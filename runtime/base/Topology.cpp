#include "runtime/base/Topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sched.h>
#include <set>
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

/// Returns the number in a file of a CPU's folder, or 0.
double numberOf(int cpu, const char *name, const std::string &root) {
  std::ifstream file(root + "/devices/system/cpu/cpu" + std::to_string(cpu) +
                     name);
  double number = 0;
  return file >> number ? number : 0;
}

/// Sets the capacities of all places; see readTopology().
void readCapacities(Topology &topology, const std::string &root) {
  std::vector<double> speeds;
  for (const CpuPlace &place : topology)
    speeds.push_back(numberOf(place.cpu, "/cpu_capacity", root));
  auto equalsFirst = [&](double speed) { return speed == speeds.front(); };
  if (std::ranges::all_of(speeds, equalsFirst)) {
    std::vector<int> slow = readList(root + "/devices/cpu_atom/cpus");
    for (size_t i = 0; i < speeds.size(); ++i) {
      double clock =
          numberOf(topology[i].cpu, "/cpufreq/cpuinfo_max_freq", root);
      bool isSlow = std::ranges::find(slow, topology[i].cpu) != slow.end();
      // Clocks tell kinds apart only where there are kinds.
      speeds[i] = slow.empty() ? 1 : (clock > 0 ? clock : 1) * (isSlow ? 2 : 3);
    }
  }
  double most = std::ranges::max(speeds);
  std::set<double, std::greater<>> distinct(speeds.begin(), speeds.end());
  for (size_t i = 0; i < speeds.size(); ++i) {
    // The fastest core of the kind stands for all of it.
    double kind = most;
    for (double speed : distinct)
      if (speed >= speeds[i] && speed < 0.8 * kind)
        kind = speed;
    topology[i].capacity =
        most > 0 ? int(kFullCapacity * kind / most) : kFullCapacity;
  }
}

/// A node's CPUs in the order in which workers take them.
struct NodeCpus {
  /// The cores, fastest first, then their hyper-thread siblings.
  std::vector<CpuPlace> places;
  size_t cores = 0;
};

std::map<int, NodeCpus> cpusByNode(const Topology &topology) {
  std::map<int, NodeCpus> nodes;
  std::set<int> seen;
  std::map<int, std::vector<CpuPlace>> siblings;
  for (const CpuPlace &place : topology) {
    NodeCpus &node = nodes[place.node];
    bool isFirst = seen.insert(place.core).second;
    (isFirst ? node.places : siblings[place.node]).push_back(place);
    node.cores += isFirst;
  }
  for (auto &[number, node] : nodes)
    for (std::vector<CpuPlace> *part : {&node.places, &siblings[number]}) {
      std::ranges::stable_sort(*part, std::greater<>(), &CpuPlace::capacity);
      if (part != &node.places)
        node.places.insert(node.places.end(), part->begin(), part->end());
    }
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
  readCapacities(topology, root);
  return topology;
}

int countMemoryNodes(const std::string &root) {
  return std::max(static_cast<int>(memoryNodes(root).size()), 1);
}

/// Returns the CPUs that workers take, in the order of placeWorkers().
static std::vector<CpuPlace> chooseCpus(const Topology &topology, int workers) {
  std::map<int, NodeCpus> nodes = cpusByNode(topology);
  std::map<int, size_t> taken;
  for (int i = 0; i < workers; ++i) {
    // Choose the node with the largest fraction of free cores; if none has a
    // free core, the node with the fewest workers per core.
    const NodeCpus *best = nullptr;
    int bestNumber = 0;
    for (const auto &[number, node] : nodes)
      if (taken[number] < node.places.size() &&
          (!best ||
           taken[number] * best->cores < taken[bestNumber] * node.cores)) {
        best = &node;
        bestNumber = number;
      }
    if (!best)
      break;
    ++taken[bestNumber];
  }
  std::vector<CpuPlace> places;
  for (const auto &[number, node] : nodes)
    places.insert(places.end(), node.places.begin(),
                  node.places.begin() + ptrdiff_t(taken[number]));
  return places;
}

std::vector<WorkerPlace> placeWorkers(const Topology &topology, int workers) {
  std::vector<WorkerPlace> places;
  for (const CpuPlace &place : chooseCpus(topology, workers))
    places.push_back({place.cpu, place.node});
  return places;
}

static bool areEqual(const Topology &topology) {
  return std::ranges::all_of(topology, [&](const CpuPlace &place) {
    return place.capacity == topology.front().capacity;
  });
}

std::vector<int> teamMarks(const Topology &topology) {
  std::map<int, std::set<int>, std::greater<>> coresByCapacity;
  for (const CpuPlace &place : topology)
    coresByCapacity[place.capacity].insert(place.core);
  std::vector<int> marks;
  int cores = 0;
  for (const auto &[capacity, ofKind] : coresByCapacity)
    marks.push_back(cores += int(ofKind.size()));
  if (int(topology.size()) > cores)
    marks.push_back(int(topology.size()));
  return marks;
}

std::vector<std::vector<int>> workerCpus(const Topology &topology,
                                         int workers) {
  if (areEqual(topology))
    return {};
  std::map<int, std::vector<int>> ofKind;
  for (const CpuPlace &place : topology)
    ofKind[place.capacity].push_back(place.cpu);
  std::vector<std::vector<int>> cpus;
  for (const CpuPlace &place : chooseCpus(topology, workers))
    cpus.push_back(ofKind[place.capacity]);
  return cpus;
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
