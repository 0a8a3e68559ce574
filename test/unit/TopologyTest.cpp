// Machines that tests describe in a folder like /sys.
#include "runtime/base/Topology.h"

#include "test/support/TempDir.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace moert;

namespace {

std::vector<int> upTo(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class TopologyTest : public ::testing::Test {
protected:
  void write(const std::string &path, const std::string &content) {
    std::filesystem::path file = folder_.path() + "/devices/system/" + path;
    std::filesystem::create_directories(file.parent_path());
    folder_.write("devices/system/" + path, content);
  }
  Topology read(const std::vector<int> &allowed) {
    return readTopology(allowed, folder_.path());
  }
  /// Two sockets of 4 cores with two threads each, numbered as servers do: CPUs
  /// c and c + 8 share a core, and CPUs 0-3 and 8-11 are on node 0.
  void describeTwoSockets() {
    write("node/node0/cpulist", "0-3,8-11\n");
    write("node/node1/cpulist", "4-7,12-15\n");
    write("node/possible", "0-1\n");
    for (int cpu = 0; cpu < 16; ++cpu)
      write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            std::to_string(cpu % 8) + "," + std::to_string(cpu % 8 + 8) + "\n");
  }

  moetest::TempDir folder_;
};

TEST_F(TopologyTest, ReadsCoresAndNodes) {
  describeTwoSockets();
  Topology topology = read(upTo(16));
  ASSERT_EQ(topology.size(), 16u);
  EXPECT_EQ(topology[2], (CpuPlace{2, 2, 0}));
  EXPECT_EQ(topology[11], (CpuPlace{11, 3, 0}));
  EXPECT_EQ(topology[12], (CpuPlace{12, 4, 1}));
  EXPECT_EQ(countMemoryNodes(folder_.path()), 2);
}

TEST_F(TopologyTest, KeepsToTheCpuset) {
  describeTwoSockets();
  EXPECT_EQ(read({13, 5, 1}), (Topology{{1, 1, 0}, {5, 5, 1}, {13, 5, 1}}));
}

// Containers often hide these folders.
TEST_F(TopologyTest, AnUnknownMachineHasOneNodeAndACorePerCpu) {
  EXPECT_EQ(read({0, 3}), (Topology{{0, 0, 0}, {3, 3, 0}}));
  EXPECT_EQ(countMemoryNodes(folder_.path()), 1);
  write("node/node0/cpulist", "nonsense\n");
  write("cpu/cpu3/topology/thread_siblings_list", "");
  EXPECT_EQ(read({3}), (Topology{{3, 3, 0}}));
}

TEST_F(TopologyTest, OneWorkerPerCoreBeforeSiblings) {
  describeTwoSockets();
  Topology topology = read(upTo(16));
  std::vector<WorkerPlace> places = placeWorkers(topology, 8);
  EXPECT_EQ(
      places,
      (std::vector<WorkerPlace>{
          {0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 1}, {7, 1}}));
  places = placeWorkers(topology, 11);
  ASSERT_EQ(places.size(), 11u);
  std::set<int> cpus;
  for (WorkerPlace place : places)
    cpus.insert(place.cpu);
  EXPECT_EQ(cpus.size(), 11u) << "two workers on one CPU";
  for (int cpu = 0; cpu < 8; ++cpu)
    EXPECT_TRUE(cpus.contains(cpu)) << "core " << cpu << " idle";
}

TEST_F(TopologyTest, FewWorkersUseTheMemoryOfAllNodes) {
  describeTwoSockets();
  EXPECT_EQ(placeWorkers(read(upTo(16)), 3),
            (std::vector<WorkerPlace>{{0, 0}, {1, 0}, {4, 1}}));
  // Workers are divided by usable cores: one on node 1, four on node 0.
  EXPECT_EQ(placeWorkers(read({0, 1, 2, 3, 6}), 5).back(), (WorkerPlace{6, 1}));
  EXPECT_EQ(placeWorkers(read({0, 1, 2, 3, 6}), 4),
            (std::vector<WorkerPlace>{{0, 0}, {1, 0}, {2, 0}, {6, 1}}));
}

TEST_F(TopologyTest, NodesMayHaveGapsAndNoCpus) {
  write("node/node0/cpulist", "0-1\n");
  write("node/node2/cpulist", "2-3\n");
  write("node/node5/cpulist", "\n"); // A node that has memory only.
  EXPECT_EQ(countMemoryNodes(folder_.path()), 3);
  EXPECT_EQ(placeWorkers(read(upTo(4)), 4),
            (std::vector<WorkerPlace>{{0, 0}, {1, 0}, {2, 2}, {3, 2}}));
}

/// 8 performance cores with two threads each, CPUs 0-15, and 16 efficiency
/// cores, CPUs 16-31, as a Core i9-14900K numbers them.
class HybridTest : public TopologyTest {
protected:
  void SetUp() override {
    for (int cpu = 0; cpu < 32; ++cpu) {
      std::string folder = "cpu/cpu" + std::to_string(cpu);
      int core = cpu < 16 ? cpu / 2 * 2 : cpu;
      write(folder + "/topology/thread_siblings_list",
            cpu < 16 ? std::to_string(core) + "-" + std::to_string(core + 1)
                     : std::to_string(cpu));
    }
  }
  void writeEach(const std::string &name, const std::string &fast,
                 const std::string &slow) {
    for (int cpu = 0; cpu < 32; ++cpu)
      write("cpu/cpu" + std::to_string(cpu) + name, cpu < 16 ? fast : slow);
  }
  /// Describes the kinds as Intel's performance counters are named.
  void listKinds() {
    std::filesystem::create_directories(folder_.path() + "/devices/cpu_atom");
    std::filesystem::create_directories(folder_.path() + "/devices/cpu_core");
    folder_.write("devices/cpu_core/cpus", "0-15\n");
    folder_.write("devices/cpu_atom/cpus", "16-31\n");
  }
  /// Returns the CPUs of workers without their nodes.
  static std::vector<int> places(const Topology &topology, int workers) {
    std::vector<int> cpus;
    for (WorkerPlace place : placeWorkers(topology, workers))
      cpus.push_back(place.cpu);
    return cpus;
  }
};

TEST_F(HybridTest, CapacitiesAreTheSystems) {
  writeEach("/cpu_capacity", "1024\n", "623\n");
  // The two favoured cores are no kind of their own.
  write("cpu/cpu8/cpu_capacity", "1009\n");
  Topology topology = read(upTo(32));
  EXPECT_EQ(topology[0].capacity, 1024);
  EXPECT_EQ(topology[8].capacity, 1024);
  EXPECT_EQ(topology[31].capacity, 623);
  EXPECT_EQ(teamMarks(topology), (std::vector<int>{8, 24, 32}));
}

TEST_F(HybridTest, KindsAndClocksStandInForCapacities) {
  listKinds();
  writeEach("/cpufreq/cpuinfo_max_freq", "6000000\n", "4500000\n");
  Topology topology = read(upTo(32));
  EXPECT_EQ(topology[0].capacity, 1024);
  // 2/3 of the capacity at 3/4 of the clock.
  EXPECT_EQ(topology[16].capacity, 512);
  // If all cores are of one kind, different clocks make no kinds.
  folder_.write("devices/cpu_atom/cpus", "\n");
  EXPECT_EQ(read(upTo(32))[16].capacity, 1024);
}

TEST_F(HybridTest, FastCoresThenSlowOnesThenSiblings) {
  listKinds();
  Topology topology = read(upTo(32));
  EXPECT_EQ(places(topology, 8), (std::vector<int>{0, 2, 4, 6, 8, 10, 12, 14}));
  std::vector<int> all = places(topology, 32);
  EXPECT_EQ(all[8], 16);
  EXPECT_EQ(all[23], 31);
  EXPECT_EQ(all[24], 1);
  EXPECT_EQ(all[31], 15);
}

TEST_F(HybridTest, WorkersStayOnTheirKindOfCore) {
  EXPECT_TRUE(workerCpus(read(upTo(32)), 32).empty()) << "any CPU will do";
  listKinds();
  std::vector<std::vector<int>> cpus = workerCpus(read(upTo(32)), 10);
  ASSERT_EQ(cpus.size(), 10u);
  EXPECT_EQ(cpus[7], upTo(16));
  EXPECT_EQ(cpus[8].front(), 16);
  EXPECT_EQ(cpus[9].size(), 16u);
}

TEST_F(TopologyTest, MarksAreCoresAndCpus) {
  describeTwoSockets();
  EXPECT_EQ(teamMarks(read(upTo(16))), (std::vector<int>{8, 16}));
  EXPECT_EQ(teamMarks(read(upTo(8))), std::vector<int>{8});
}

TEST(ThisMachineTest, HasPlacesForItsCpus) {
  std::vector<int> allowed = allowedCpus();
  Topology topology = readTopology(allowed);
  EXPECT_EQ(topology.size(), allowed.size());
  EXPECT_EQ(placeWorkers(topology, int(allowed.size())).size(), allowed.size());
}

// Node 0 exists on every machine; a node that none has is ignored silently.
TEST(ThisMachineTest, MemoryPolicyComesAndGoes) {
  for (int node : {0, 1023, 5000, -1}) {
    preferMemoryNode(node);
    std::vector<char> touched(1 << 20, 'x');
    EXPECT_EQ(touched.back(), 'x');
  }
}

} // namespace
