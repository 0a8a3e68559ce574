#include "passes/moe/placement/StepPrediction.h"

#include "compiler/Machine/CostModel/Memories.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/kernels/OpSeconds.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

RequestMix moe::requestMix(Objective objective, int64_t prompt,
                           int64_t deferred) {
  constexpr double kGenerated = 256;
  RequestMix mix{double(prompt), kGenerated, deferred};
  if (objective == Objective::Decode)
    mix.prompt = 0;
  if (objective == Objective::Prefill)
    mix.generated = 0;
  return mix;
}

PromptSteps moe::promptSteps(double prompt, PhaseAttr prefill) {
  if (!(prompt > 0))
    return {};
  int64_t tokens = std::clamp<int64_t>(int64_t(prompt), prefill.getMinTokens(),
                                       prefill.getMaxTokens());
  return {tokens, std::ceil(prompt / double(tokens))};
}

StepPrediction::StepPrediction(const PlacementProblem &problem,
                               const moec::TargetDesc &target, RequestMix mix,
                               bool mayPack)
    : problem(problem), target(target), devices(int(target.devices.size())),
      mayPack(mayPack) {
  size_t cells = problem.groups().size() * size_t(devices);
  groupSeconds.assign(cells, 0);
  groupRequest.assign(cells, 0);
  runs.assign(cells, true);
  for (func::FuncOp function : problem.phases()) {
    PhaseAttr phase = phaseOf(function);
    if (isOfOneToken(phase)) {
      addGraph(function, 1, mix.generated, mix.deferred);
    } else if (phase.getKind() == PhaseKind::Prefill && mix.prompt > 0) {
      PromptSteps steps = promptSteps(mix.prompt, phase);
      addGraph(function, steps.tokens, steps.count, /*deferred=*/0);
    }
  }
}

namespace {
/// Counts barriers if one device runs the whole graph: one per level of the
/// dependence graph, since independent ops run concurrently (PlanOrder.cpp,
/// PlanHazards.cpp).
class BarrierCounter {
public:
  /// Returns the barriers before and within the next op, which has
  /// `instructions` instructions.
  int64_t of(Operation &op, int64_t instructions) {
    int64_t level = 0;
    for (Value operand : op.getOperands())
      level = std::max(level, levels.lookup(operand));
    // A norm needs no barrier: every worker computes the norm that it reads.
    if (!isa<RmsNormOp>(op))
      level += instructions;
    for (Value result : op.getResults())
      levels[result] = level;
    int64_t passed = std::max<int64_t>(0, level - highest);
    highest += passed;
    return passed;
  }

private:
  llvm::DenseMap<Value, int64_t> levels;
  int64_t highest = 0;
};
} // namespace

/// The experts of a function whose results are deferred to the next layer.
struct StepPrediction::Deferral {
  /// The op that adds the deferred result; the last layer defers nothing.
  llvm::DenseMap<Operation *, ExpertsOp> addedTo;
  /// Deferred values by the op that adds them.
  llvm::DenseMap<Operation *, SmallVector<int, 1>> late;

  Deferral(func::FuncOp function, int64_t deferred) {
    if (deferred == 0)
      return;
    SmallVector<ExpertLayer> layers = expertLayers(function);
    for (size_t i = 0; i + 1 < layers.size(); ++i)
      for (ExpertsOp op : layers[i])
        addedTo[op] = layers[i + 1].front();
  }
};

void StepPrediction::addGraph(func::FuncOp function, int64_t tokens,
                              double steps, int64_t deferred) {
  Graph graph;
  graph.steps = steps;
  PhaseAttr phase = phaseOf(function);
  graph.decode = isOfOneToken(phase);
  std::vector<moec::Situation> situations;
  for (const moec::DeviceDesc &device : target.devices)
    situations.push_back(
        situationOf(function, {tokens, typicalStep(phase).cached}, device));

  llvm::DenseMap<Value, int> known;
  auto addValue = [&](Value value, int producer) {
    if (int64_t bytes = PlacementProblem::bytesOf(value, tokens)) {
      known[value] = int(graph.values.size());
      graph.values.push_back({producer, double(bytes)});
    }
  };
  Block &body = function.getBody().front();
  for (Value argument : body.getArguments())
    addValue(argument, -1);
  Deferral deferral(function, deferred);
  BarrierCounter barriers;
  for (Operation &op : body) {
    int group = problem.groupOf(&op);
    bool ends = op.hasTrait<OpTrait::IsTerminator>();
    if (group < 0 && !ends)
      continue;
    Node node;
    node.group = ends ? -1 : group;
    for (Value operand : op.getOperands())
      if (auto it = known.find(operand); it != known.end())
        node.reads.push_back(it->second);
    node.seconds.assign(size_t(devices), 0);
    node.overhead.assign(size_t(devices), 0);
    int64_t instructions = 0;
    if (auto lowerable = dyn_cast<LowerableOpInterface>(op))
      instructions = int64_t(lowerable.getInstructions({}).size());
    int64_t passed = barriers.of(op, instructions);
    node.instructions = double(std::max<int64_t>(instructions, 1));
    if (op.getNumResults() == 1)
      node.resultBytes =
          double(PlacementProblem::bytesOf(op.getResult(0), tokens));
    if (auto costed = dyn_cast<CostOpInterface>(op)) {
      Cost cost = costed.getCost(tokens, typicalStep(phase).cached);
      node.readBytes = cost.weightBytes + cost.kvBytes;
    }
    for (int i = 0; i < devices && !ends; ++i) {
      const moec::DeviceDesc &device = target.devices[i];
      double own =
          opSeconds(&op, situations[i], device, mayLayOut(device, mayPack));
      node.overhead[i] = overheadSeconds(instructions, passed, device);
      double seconds = own + node.overhead[i];
      size_t cell = size_t(group) * devices + i;
      if (own >= kNeverSeconds)
        runs[cell] = false;
      node.seconds[i] = seconds;
      groupRequest[cell] += seconds * steps;
      if (graph.decode)
        groupSeconds[cell] += own;
    }
    auto addNode = [&](Node made) {
      graph.nodes.push_back(std::move(made));
      return int(graph.nodes.size()) - 1;
    };
    ExpertsOp addedTo = deferral.addedTo.lookup(&op);
    std::optional<Node> late;
    if (addedTo) {
      int64_t used = usedExperts(cast<ExpertsOp>(op));
      double share = double(std::min(deferred, used)) / double(used);
      late = node;
      late->isDeferred = true;
      late->readBytes = share * node.readBytes;
      node.readBytes -= late->readBytes;
      for (int i = 0; i < devices; ++i) {
        double work = node.seconds[i] - node.overhead[i];
        node.seconds[i] -= share * work;
        late->seconds[i] = share * work + late->overhead[i];
      }
    }
    int made = addNode(std::move(node));
    for (Value result : op.getResults())
      addValue(result, made);
    if (auto it = deferral.late.find(&op); it != deferral.late.end()) {
      Node sum = graph.nodes[made];
      sum.isSum = true;
      sum.readBytes = 0;
      sum.reads.assign(it->second.begin(), it->second.end());
      sum.reads.push_back(known.lookup(op.getResult(0)));
      for (int i = 0; i < devices; ++i)
        sum.seconds[i] = sum.overhead[i] / sum.instructions;
      addValue(op.getResult(0), addNode(std::move(sum)));
    }
    if (late) {
      double bytes = late->resultBytes;
      int number = addNode(std::move(*late));
      deferral.late[addedTo].push_back(int(graph.values.size()));
      graph.values.push_back({number, bytes});
    }
  }
  graphs.push_back(std::move(graph));
}

double StepPrediction::copySeconds(double bytes, int from, int to) const {
  // A copy between two GPUs goes through the host's memory and over both links.
  double seconds = 0;
  for (int end : {from, to})
    if (target.devices[end].kind == moec::DeviceKind::Cuda)
      seconds += moec::transferSeconds(bytes, target.devices[end]);
  return seconds;
}

double StepPrediction::simulate(const Graph &graph,
                                const Assignment &assignment,
                                ArrayRef<ExpertSplit> splits,
                                Transfers *transfers,
                                std::vector<double> *ends) const {
  int host = devices - 1;
  // The times at which each device and each device's link become free, and at
  // which each value arrives on each device (-1: not copied yet).
  std::vector<double> free(size_t(devices), 0), link(size_t(devices), 0);
  std::vector<double> there(graph.values.size() * size_t(devices), -1);
  std::vector<double> finish(graph.nodes.size(), 0);
  moec::MemoryTraffic traffic(target);
  std::vector<const ExpertSplit *> splitOf(assignment.size());
  for (const ExpertSplit &split : splits)
    splitOf[split.group] = &split;
  auto homeOf = [&](int node) {
    int group = node < 0 ? -1 : graph.nodes[node].group;
    if (group < 0)
      return host;
    // The device of the chosen experts adds both results of a split layer.
    // Deferred results stay where the rest is: the next layer adds them.
    const ExpertSplit *split = splitOf[group];
    return split && !graph.nodes[node].isDeferred ? split->device
                                                  : assignment[group];
  };
  auto copy = [&](double made, double bytes, int from, int to) {
    double seconds = copySeconds(bytes, from, to);
    int over = to == host ? from : to;
    if (transfers) {
      ++transfers->count;
      transfers->seconds += seconds;
    }
    return link[over] = std::max(made, link[over]) + seconds;
  };
  /// Returns when `device` is free and has all values that the node reads.
  auto startOf = [&](const Node &node, int device) {
    double start = free[device];
    for (int read : node.reads) {
      const ValueInfo &value = graph.values[read];
      int home = homeOf(value.producer);
      double made = value.producer < 0 ? 0 : finish[value.producer];
      if (home != device) {
        double &arrival = there[size_t(read) * devices + device];
        if (arrival < 0)
          arrival = copy(made, value.bytes, home, device);
        made = arrival;
      }
      start = std::max(start, made);
    }
    return start;
  };
  double end = 0;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    int device = homeOf(int(i));
    // A sum is one op, on the device that has its summands.
    const ExpertSplit *split =
        node.group < 0 || node.isSum ? nullptr : splitOf[node.group];
    if (!split) {
      free[device] = finish[i] =
          traffic.end(size_t(device), startOf(node, device),
                      node.seconds[device], node.readBytes);
    } else {
      int others = assignment[node.group], own = split->device;
      auto endOf = [&](int device, double share) {
        double seconds =
            share * (node.seconds[device] - node.overhead[device]) +
            node.overhead[device];
        return traffic.end(size_t(device), startOf(node, device), seconds,
                           share * node.readBytes);
      };
      double rest = endOf(others, 1 - split->share);
      double first = endOf(own, split->share);
      free[others] = rest;
      if (node.isDeferred) {
        free[own] = first;
        finish[i] = std::max(first, rest);
      } else {
        double both =
            std::max(first, copy(rest, node.resultBytes, others, own));
        free[own] = finish[i] = both + node.overhead[own] / node.instructions;
      }
    }
    end = std::max(end, finish[i]);
    if (ends)
      ends->push_back(end);
  }
  return end;
}

StepPrediction::Prediction
StepPrediction::predict(const Assignment &assignment,
                        ArrayRef<ExpertSplit> splits) const {
  Prediction prediction;
  for (const Graph &graph : graphs) {
    double seconds = simulate(graph, assignment, splits);
    prediction.request += graph.steps * seconds;
    if (graph.decode)
      prediction.decode += seconds;
    else
      prediction.prompt += graph.steps * seconds;
  }
  return prediction;
}

std::vector<double> StepPrediction::layerSeconds(const Assignment &assignment,
                                                 ArrayRef<int> layerOf,
                                                 size_t layers) const {
  std::vector<double> seconds(layers, 0);
  for (const Graph &graph : graphs) {
    std::vector<double> ends;
    simulate(graph, assignment, {}, nullptr, &ends);
    std::vector<double> last(layers, 0);
    for (auto [node, end] : llvm::zip_equal(graph.nodes, ends))
      if (int layer = node.group < 0 ? -1 : layerOf[node.group]; layer >= 0)
        last[layer] = end;
    double before = 0;
    for (size_t layer = 0; layer < layers; ++layer) {
      double end = std::max(before, last[layer]);
      seconds[layer] += graph.steps * (end - before);
      before = end;
    }
  }
  return seconds;
}

StepPrediction::Transfers
StepPrediction::transfersPerToken(const Assignment &assignment,
                                  ArrayRef<ExpertSplit> splits) const {
  Transfers transfers;
  for (const Graph &graph : graphs)
    if (graph.decode)
      simulate(graph, assignment, splits, &transfers);
  return transfers;
}
