// The bytes that each node reads, on machines with 2 and 4 memory nodes.
#include "runtime/device/cpu/NodeParts.h"

#include "runtime/base/Topology.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/NodeUse.h"
#include "runtime/plan/PlanAccess.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

class NodePartsTest : public ::testing::Test {
protected:
  TempDir folder_;
  SamplePlan sample_;
};

TEST_F(NodePartsTest, OneNodeHasNoParts) {
  StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  using Nodes = std::vector<std::vector<int>>;
  for (const Nodes &nodes :
       {Nodes{}, Nodes{{}}, Nodes{{0, 0, 0}}, Nodes{{1}, {1}}})
    for (const auto &file : nodeParts(plan->table(), nodes))
      EXPECT_TRUE(file.empty());
}

/// Every byte of a gemm's weight is in one node's part, every node has a part
/// of every expert, and the parts are those of forExpertShare
/// (KernelConformanceTest proves that kernels use these).
TEST_F(NodePartsTest, EveryByteOfEveryExpertIsOneNodes) {
  StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  const fb::Plan &table = plan->table();
  for (std::vector<int> nodes :
       {std::vector<int>{0, 0, 1, 1}, {0, 1, 2, 3}, {0, 0, 0, 5}}) {
    std::vector<std::vector<int>> ofOne{nodes};
    std::vector<std::vector<NodeBytes>> parts = nodeParts(table, ofOne);
    ASSERT_EQ(parts.size(), table.files()->size());
    for (const auto &file : parts)
      for (size_t i = 0; i < file.size(); ++i) {
        EXPECT_LT(file[i].begin, file[i].end);
        if (i > 0) {
          EXPECT_LE(file[i - 1].end, file[i].begin) << "two nodes' bytes";
        }
      }
    size_t gemmWeights = 0;
    for (uint32_t w = 0; w < table.weights()->size(); ++w) {
      const fb::Weight &weight = *table.weights()->Get(w);
      uint64_t covered = 0;
      std::map<int, uint64_t> byNode;
      uint64_t begin = weight.offset(),
               end = begin + uint64_t(weight.outer() * weight.outer_stride());
      for (const NodeBytes &part : parts[weight.file()])
        if (part.begin >= begin && part.end <= end) {
          covered += part.end - part.begin;
          byNode[part.node] += part.end - part.begin;
        }
      if (covered == 0)
        continue;
      ++gemmWeights;
      EXPECT_EQ(covered,
                uint64_t(weight.outer() * weight.rows() * weight.row_stride()));
      int64_t grains = (weight.rows() + 15) / 16;
      if (grains >= int64_t(nodes.size())) {
        EXPECT_EQ(byNode.size(),
                  std::set<int>(nodes.begin(), nodes.end()).size());
      }
    }
    EXPECT_GT(gemmWeights, 5u);
  }
}

bool isExperts(const fb::InstructionT &instruction) {
  return findOp(instruction.op)->name.starts_with("expert");
}

/// With two devices, each one's nodes have the bytes that its instructions
/// read.
TEST_F(NodePartsTest, DevicesReadTheirOwnNodes) {
  moetest::splitPlan(sample_.builder.plan,
                     [](const fb::PhaseT &, const fb::InstructionT &i) {
                       return uint32_t(isExperts(i));
                     });
  StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  const fb::Plan &table = plan->table();
  std::vector<std::vector<int>> nodes = {{3, 3}, {5, 6}};
  auto parts = nodeParts(table, nodes);
  std::map<std::string, std::set<int>> nodesOf;
  for (const fb::Weight *weight : *table.weights())
    for (const NodeBytes &part : parts[weight->file()])
      if (part.begin < weight->offset() +
                           uint64_t(weight->outer() * weight->outer_stride()) &&
          weight->offset() < part.end)
        nodesOf[std::string(text(weight->name()))].insert(part.node);
  EXPECT_EQ(nodesOf["wo"], (std::set<int>{3}));
  EXPECT_EQ(nodesOf["dense_down"], (std::set<int>{3}));
  EXPECT_EQ(nodesOf["down"], (std::set<int>{5, 6}));
  // The rows of the weight are a single unit, which is not divided.
  EXPECT_EQ(nodesOf["gate"], (std::set<int>{6}));
}

// On a simulated machine whose CPUs are each a node, with weights mapped or
// copied, results have the same bits as elsewhere.
TEST_F(NodePartsTest, EnginesOnSimulatedNodesComputeTheSame) {
  SamplePlan split;
  moetest::splitPlan(split.builder.plan,
                     [](const fb::PhaseT &, const fb::InstructionT &i) {
                       return uint32_t(isExperts(i));
                     });
  TempDir other;
  std::string planPath = sample_.builder.write(folder_);
  std::string splitPath = split.builder.write(other);
  std::vector<int> cpus = allowedCpus();
  for (size_t i = 0; i < cpus.size(); ++i) {
    std::string node = "devices/system/node/node" + std::to_string(i);
    std::filesystem::create_directories(folder_.path() + "/" + node);
    folder_.write(node + "/cpulist", std::to_string(cpus[i]) + "\n");
  }
  auto logits = [&](const EngineOptions &options) {
    auto one = OneSequence::open(planPath, options);
    EXPECT_TRUE(one.isOk()) << one.status().message();
    std::vector<float> all;
    for (int32_t token = 0; token < 8; ++token) {
      StatusOr<std::span<const float>> row = one->append(token);
      EXPECT_TRUE(row.isOk());
      all.insert(all.end(), row->begin(), row->end());
    }
    return all;
  };
  EngineOptions options;
  options.threads = 1;
  std::vector<float> expected = logits(options);
  options.threads = 0;
  options.pin = true;
  EXPECT_EQ(logits(options), expected);
  options.systemRoot = folder_.path();
  EXPECT_EQ(logits(options), expected);
  options.copyWeights = true;
  EXPECT_EQ(logits(options), expected);
  std::swap(planPath, splitPath);
  EXPECT_EQ(logits(options), expected) << "on two devices";
}

/// A plan for two nodes on a machine with two sockets of four cores with two
/// threads each, of which the process may use `cpus`.
class NodeUseTest : public NodePartsTest {
protected:
  static Topology sockets(int cpus = 16) {
    Topology all;
    for (int cpu = 0; cpu < cpus; ++cpu)
      all.push_back({cpu, cpu % 8, cpu % 8 / 4});
    return all;
  }
  NodeUse used(fb::NodeUse planned, NodeUse asked, Topology topology) {
    sample_.builder.plan.devices[0]->nodes = 2;
    sample_.builder.plan.devices[0]->node_use = planned;
    StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    return chooseNodeUse(plan->table(), std::move(asked), std::move(topology));
  }
};

TEST_F(NodeUseTest, FollowsThePlan) {
  NodeUse split = used(fb::NodeUse::Split, {}, sockets());
  EXPECT_TRUE(split.pin && split.copyWeights && split.interleaved.empty());
  EXPECT_EQ(split.threads, 0);
  EXPECT_EQ(split.topology, sockets());
  EXPECT_NE(split.note.find("each of 2 memory nodes"), std::string::npos);
  NodeUse turns = used(fb::NodeUse::Interleaved, {}, sockets());
  EXPECT_TRUE(!turns.pin && turns.copyWeights);
  EXPECT_EQ(turns.interleaved, (std::vector<int>{0, 1}));
  NodeUse any = used(fb::NodeUse::Any, {3, true, false}, sockets());
  EXPECT_TRUE(any.pin && !any.copyWeights && any.note.empty());
  EXPECT_EQ(any.threads, 3);
}

TEST_F(NodeUseTest, OneNodeIsTheOneWithTheMostCores) {
  // This process may not use one core of node 0.
  Topology allowed = sockets();
  std::erase_if(allowed, [](const CpuPlace &place) { return place.core == 2; });
  NodeUse one = used(fb::NodeUse::One, {}, allowed);
  EXPECT_TRUE(one.pin && !one.copyWeights);
  EXPECT_EQ(one.threads, 0);
  EXPECT_EQ(one.topology.size(), 8u);
  for (const CpuPlace &place : one.topology)
    EXPECT_EQ(place.node, 1);
  EXPECT_EQ(used(fb::NodeUse::One, {2, false, true}, allowed).threads, 2);
}

TEST_F(NodeUseTest, AMachineOfOneNodeIsUsedAsItIs) {
  NodeUse use = used(fb::NodeUse::Split, {}, sockets(4));
  EXPECT_TRUE(!use.pin && !use.copyWeights);
  EXPECT_NE(use.note.find("predicted speeds do not apply here"),
            std::string::npos);
}

// The engine's own choice, on a machine whose CPUs are each a node.
TEST_F(NodeUseTest, IsUsedByTheEngine) {
  std::vector<int> cpus = allowedCpus();
  if (cpus.size() < 2)
    GTEST_SKIP() << "needs two CPUs";
  for (size_t i = 0; i < cpus.size(); ++i) {
    std::string node = "devices/system/node/node" + std::to_string(i);
    std::filesystem::create_directories(folder_.path() + "/" + node);
    folder_.write(node + "/cpulist", std::to_string(cpus[i]) + "\n");
  }
  EngineOptions options;
  options.systemRoot = folder_.path();
  DeviceOptions made;
  options.makeDevices = [&](const Plan &plan, const WeightFiles &files,
                            DeviceOptions devices) {
    made = devices;
    return makeDevices(plan, files, std::move(devices));
  };
  auto open = [&](fb::NodeUse planned) {
    sample_.builder.plan.devices[0]->nodes = 2;
    sample_.builder.plan.devices[0]->node_use = planned;
    auto engine = Engine::open(sample_.builder.write(folder_), options);
    EXPECT_TRUE(engine.isOk()) << engine.status().message();
    return engine.isOk() ? (*engine)->fit().need.copied : false;
  };
  EXPECT_TRUE(open(fb::NodeUse::Split));
  EXPECT_EQ(std::set<int>(made.nodes.begin(), made.nodes.end()).size(),
            made.nodes.size());
  EXPECT_GT(made.nodes.size(), 1u);
  EXPECT_TRUE(open(fb::NodeUse::Interleaved));
  EXPECT_TRUE(made.nodes.empty());
  EXPECT_FALSE(open(fb::NodeUse::One));
  EXPECT_EQ(made.nodes.size(), 1u);
  EXPECT_EQ(made.threads, 1);
  options.planNodes = false;
  EXPECT_FALSE(open(fb::NodeUse::Split));
  EXPECT_TRUE(made.nodes.empty());
}

} // namespace
