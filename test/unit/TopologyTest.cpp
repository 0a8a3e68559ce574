// Machines that tests describe in a folder like /sys.
#include "runtime/base/Topology.h"

#include "test/support/TempDir.h"

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
  write("node/node5/cpulist", "\n"); // memory only
  EXPECT_EQ(countMemoryNodes(folder_.path()), 3);
  EXPECT_EQ(placeWorkers(read(upTo(4)), 4),
            (std::vector<WorkerPlace>{{0, 0}, {1, 0}, {2, 2}, {3, 2}}));
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
