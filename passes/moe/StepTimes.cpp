#include "passes/moe/StepTimes.h"

#include "passes/moe/OpSeconds.h"
#include "passes/moe/Support.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

StepTimes::StepTimes(const PlacementProblem &problem,
                     const moec::TargetDesc &target, RequestMix mix)
    : problem(problem), target(target), devices(int(target.devices.size())) {
  size_t cells = problem.groups().size() * size_t(devices);
  groupSeconds.assign(cells, 0);
  groupRequest.assign(cells, 0);
  runs.assign(cells, true);
  for (func::FuncOp function : problem.phases()) {
    PhaseAttr phase = phaseOf(function);
    if (isOfOneToken(phase)) {
      addGraph(function, 1, mix.generated);
    } else if (phase.getName() == kPrefillName && mix.prompt > 0) {
      int64_t tokens = std::clamp<int64_t>(
          int64_t(mix.prompt), phase.getMinTokens(), phase.getMaxTokens());
      addGraph(function, tokens, std::ceil(mix.prompt / double(tokens)));
    }
  }
}

void StepTimes::addGraph(func::FuncOp function, int64_t tokens, double steps) {
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
    for (int i = 0; i < devices && !ends; ++i) {
      const moec::DeviceDesc &device = target.devices[i];
      double own = opSeconds(&op, situations[i], device);
      double seconds = own + overheadSeconds(&op, device);
      size_t cell = size_t(group) * devices + i;
      if (own >= kNeverSeconds)
        runs[cell] = false;
      node.seconds[i] = seconds;
      groupRequest[cell] += seconds * steps;
      if (graph.decode)
        groupSeconds[cell] += own;
    }
    for (Value result : op.getResults())
      addValue(result, int(graph.nodes.size()));
    graph.nodes.push_back(std::move(node));
  }
  graphs.push_back(std::move(graph));
}

double StepTimes::copySeconds(double bytes, int from, int to) const {
  // Between two GPUs through the host's memory, over both links.
  double seconds = 0;
  for (int end : {from, to})
    if (target.devices[end].kind == moec::DeviceKind::Cuda)
      seconds += moec::transferSeconds(bytes, target.devices[end]);
  return seconds;
}

double StepTimes::simulate(const Graph &graph, const Assignment &assignment,
                           Transfers *transfers) const {
  int host = devices - 1;
  // When each device, and each device's link, is free, and when a value is on a
  // device: not before anything was asked for it.
  std::vector<double> free(size_t(devices), 0), link(size_t(devices), 0);
  std::vector<double> there(graph.values.size() * size_t(devices), -1);
  std::vector<double> finish(graph.nodes.size(), 0);
  auto homeOf = [&](int node) {
    int group = node < 0 ? -1 : graph.nodes[node].group;
    return group < 0 ? host : assignment[group];
  };
  double end = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    int device = homeOf(int(i));
    double start = free[device];
    for (int read : node.reads) {
      const ValueInfo &value = graph.values[read];
      int home = homeOf(value.producer);
      double made = value.producer < 0 ? 0 : finish[value.producer];
      if (home != device) {
        double &arrival = there[size_t(read) * devices + device];
        if (arrival < 0) {
          double seconds = copySeconds(value.bytes, home, device);
          int over = device == host ? home : device;
          arrival = link[over] = std::max(made, link[over]) + seconds;
          if (transfers) {
            ++transfers->count;
            transfers->seconds += seconds;
          }
        }
        made = arrival;
      }
      start = std::max(start, made);
    }
    free[device] = finish[i] = start + node.seconds[device];
    end = std::max(end, finish[i]);
  }
  return end;
}

StepTimes::Prediction StepTimes::predict(const Assignment &assignment) const {
  Prediction prediction;
  for (const Graph &graph : graphs) {
    double seconds = simulate(graph, assignment);
    prediction.request += graph.steps * seconds;
    if (graph.decode)
      prediction.decode += seconds;
    else
      prediction.prompt += graph.steps * seconds;
  }
  return prediction;
}

StepTimes::Transfers
StepTimes::transfersPerToken(const Assignment &assignment) const {
  Transfers transfers;
  for (const Graph &graph : graphs)
    if (graph.decode)
      simulate(graph, assignment, &transfers);
  return transfers;
}
