#include "passes/moe/placement/StepPrediction.h"

#include "compiler/Machine/CostModel/TypicalRequest.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/OpSeconds.h"
#include "passes/moe/placement/PlacedStep.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

RequestMix moe::requestMix(ModuleOp module, Objective objective, int64_t prompt,
                           int64_t deferred) {
  RequestMix mix{{}, double(moec::kTypicalGenerated), deferred};
  int64_t context = 1;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (PhaseAttr phase = phaseOf(function))
      context = std::max(context, phase.getContextLength());
  if (objective != Objective::Decode)
    for (int64_t tokens :
         prompt > 0 ? ArrayRef(prompt) : ArrayRef(moec::kTypicalPrompts))
      mix.prompts.push_back(std::min(tokens, context));
  if (objective == Objective::Prefill)
    mix.generated = 0;
  return mix;
}

std::string moe::describePrompts(const RequestMix &mix) {
  if (mix.prompts.size() == 1)
    return "a prompt of " +
           moert::counted(uint64_t(mix.prompts.front()), "token");
  std::string text = "prompts of ";
  for (auto [i, tokens] : llvm::enumerate(mix.prompts))
    text += (i == 0                       ? ""
             : i + 1 < mix.prompts.size() ? ", "
                                          : " and ") +
            std::to_string(tokens);
  return text + " tokens in the mean";
}

std::map<int64_t, double> moe::promptSteps(const RequestMix &mix,
                                           PhaseAttr prefill) {
  std::map<int64_t, double> steps;
  for (int64_t prompt : mix.prompts) {
    int64_t tokens =
        std::clamp(prompt, prefill.getMinTokens(), prefill.getMaxTokens());
    steps[tokens] +=
        double(llvm::divideCeil(prompt, tokens)) / double(mix.prompts.size());
  }
  return steps;
}

/// Returns a copy of the module in which generation defers experts, and what
/// each op was copied from; null if none are to be deferred or cannot be.
static OwningOpRef<ModuleOp>
withDeferred(ModuleOp module, int64_t deferred,
             llvm::DenseMap<Operation *, Operation *> &sources) {
  IRMapping mapping;
  OwningOpRef<ModuleOp> copy =
      cast<ModuleOp>(module->clone(mapping, Operation::CloneOptions::all()));
  // moe-defer-experts reports errors itself.
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  PassManager manager(module.getContext());
  DeferExpertsPassOptions options;
  options.deferExperts = deferred;
  manager.addPass(createDeferExpertsPass(options));
  if (failed(manager.run(*copy)))
    return {};
  for (auto [from, to] : mapping.getOperationMap())
    sources[to] = from;
  return copy;
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
  if (problem.groups().empty())
    return;
  OwningOpRef<ModuleOp> copy;
  llvm::DenseMap<Operation *, Operation *> sources;
  if (mix.deferred > 0)
    copy = withDeferred(
        problem.groups().front().ops.front()->getParentOfType<ModuleOp>(),
        mix.deferred, sources);
  if (!copy) {
    addGraphs(mix, problem.phases(),
              [&](Operation *op) { return problem.groupOf(op); });
    return;
  }
  // What the pass has added belongs to the experts that it reads or chooses
  // for.
  std::function<int(Operation *)> groupOf = [&](Operation *op) {
    if (Operation *source = sources.lookup(op))
      return problem.groupOf(source);
    if (auto experts = dyn_cast<ExpertsOp>(op)) {
      for (Operation *other : experts.getGate().getUsers())
        if (sources.contains(other))
          return groupOf(other);
    } else if (isa<SplitChoicesOp>(op)) {
      for (Operation *user : op->getResult(0).getUsers())
        return groupOf(user);
    } else if (auto sum = dyn_cast<AddOp>(op)) {
      if (Operation *producer = sum.getLhs().getDefiningOp())
        return groupOf(producer);
    }
    return -1;
  };
  addGraphs(mix, llvm::to_vector(copy->getOps<func::FuncOp>()), groupOf);
}

void StepPrediction::addGraphs(const RequestMix &mix,
                               ArrayRef<func::FuncOp> functions,
                               function_ref<int(Operation *)> groupOf) {
  StepGraphs all(target, mayPack, problem.streaming(), functions, groupOf);
  func::FuncOp decode, logits;
  bool hasPrefill = false;
  auto add = [&](func::FuncOp function, int64_t tokens, double steps) {
    graphs.push_back({all.build(function, tokens),
                      {},
                      steps,
                      tokens,
                      phaseOf(function).getKind()});
  };
  for (func::FuncOp function : functions) {
    PhaseAttr phase = phaseOf(function);
    PhaseKind kind = phase.getKind();
    hasPrefill |= kind == PhaseKind::Prefill;
    if (isOfOneToken(phase)) {
      add(function, 1, mix.generated);
      if (kind == PhaseKind::Decode && phase.getMaxTokens() == 1)
        decode = function;
      if (kind == PhaseKind::Logits)
        logits = function;
    } else if (kind == PhaseKind::Prefill) {
      for (auto [tokens, count] : promptSteps(mix, phase))
        add(function, tokens, count);
    }
  }
  if (decode && logits && hasPrefill && target.gpuCount() > 0)
    joined.emplace(
        Graph{all.build(decode, 1, logits), {}, 0, 1, PhaseKind::Decode});
  for (func::FuncOp function : problem.phases()) {
    PhaseAttr phase = phaseOf(function);
    if (isOfOneToken(phase)) {
      addSeconds(function, 1, mix.generated, true);
    } else if (phase.getKind() == PhaseKind::Prefill) {
      for (auto [tokens, count] : promptSteps(mix, phase))
        addSeconds(function, tokens, count, false);
    }
  }
}

/// Adds up the seconds of groups alone.
void StepPrediction::addSeconds(func::FuncOp function, int64_t tokens,
                                double steps, bool isDecode) {
  TypicalStep step{tokens, typicalStep(phaseOf(function)).cached};
  for (auto [i, device] : llvm::enumerate(target.devices)) {
    moec::Situation situation = situationOf(function, step, device);
    for (Operation &op : function.getBody().front()) {
      int group = problem.groupOf(&op);
      if (group < 0)
        continue;
      double own =
          opSeconds(&op, situation, device, mayLayOut(device, mayPack));
      int64_t count = 0;
      if (auto lowerable = dyn_cast<LowerableOpInterface>(op))
        count = int64_t(lowerable.getInstructions({}).size());
      size_t cell = size_t(group) * size_t(devices) + i;
      if (own >= kNeverSeconds)
        runs[cell] = false;
      groupRequest[cell] +=
          (own + overheadSeconds(count, count, device)) * steps;
      if (isDecode)
        groupSeconds[cell] += own;
    }
  }
}

/// Returns whether a GPU goes on from a token's hidden state to its logits
/// (passes/plan/PlanJoinHead.cpp).
bool StepPrediction::isJoined(const Assignment &assignment) const {
  if (!joined || joined->step.handedOver < 0)
    return false;
  auto deviceOf = [&](size_t node) {
    int group = joined->step.nodes[node].group;
    return group < 0 ? devices - 1 : assignment[size_t(group)];
  };
  int producer = joined->step.values[size_t(joined->step.handedOver)].producer;
  if (producer < 0)
    return false;
  int home = deviceOf(size_t(producer));
  if (home == kAbsent ||
      target.devices[size_t(home)].kind != moec::DeviceKind::Cuda)
    return false;
  bool isRead = false;
  for (auto i = size_t(joined->step.second); i < joined->step.nodes.size(); ++i)
    if (llvm::is_contained(joined->step.nodes[i].reads,
                           joined->step.handedOver)) {
      isRead = true;
      if (deviceOf(i) != home)
        return false;
    }
  return isRead;
}

PlacedStep StepPrediction::placed(const StepGraph &graph,
                                  const Assignment &assignment,
                                  ArrayRef<ExpertSplit> splits,
                                  bool streams) const {
  std::vector<const ExpertSplit *> splitOf(assignment.size());
  for (const ExpertSplit &split : splits)
    splitOf[size_t(split.group)] = &split;
  if (!streams)
    return placeStep(graph, target, assignment, splitOf);
  std::vector<int> streamed(assignment.size(), kAbsent);
  for (size_t group = 0; group < assignment.size(); ++group)
    streamed[group] = problem.streamedTo(int(group), assignment, splitOf);
  return placeStep(graph, target, assignment, splitOf, streamed);
}

bool StepPrediction::mayStream(const Graph &graph) const {
  return graph.kind == PhaseKind::Prefill && problem.streaming().from != 0 &&
         graph.tokens >= problem.streaming().from;
}

double StepPrediction::secondsOf(const Graph &graph,
                                 const Assignment &assignment,
                                 ArrayRef<ExpertSplit> splits,
                                 bool streams) const {
  SmallString<4096> key;
  key.push_back(char(streams));
  for (const StepGraph::Node &node : graph.step.nodes)
    if (node.group >= 0)
      key.push_back(char(assignment[size_t(node.group)]));
  for (const ExpertSplit &split : splits)
    key.append(StringRef(reinterpret_cast<const char *>(&split.group),
                         sizeof split.group));
  for (const ExpertSplit &split : splits) {
    key.push_back(char(split.device));
    key.append(StringRef(reinterpret_cast<const char *>(&split.share),
                         sizeof split.share));
  }
  auto [seconds, isNew] = graph.known.try_emplace(key, 0.0);
  if (isNew) {
    ++simulated;
    seconds->second =
        placed(graph.step, assignment, splits, streams).seconds(target);
  }
  return seconds->second;
}

StepPrediction::Prediction
StepPrediction::predict(const Assignment &assignment,
                        ArrayRef<ExpertSplit> splits) const {
  Prediction prediction;
  bool isOne = isJoined(assignment);
  for (const Graph &graph : graphs) {
    bool isDecode = graph.kind == PhaseKind::Decode;
    if (isOne && graph.kind == PhaseKind::Logits)
      continue; // A part of decoding.
    double seconds =
        secondsOf(isOne && isDecode ? *joined : graph, assignment, splits);
    bool streams = false;
    if (mayStream(graph)) {
      double streamed = secondsOf(graph, assignment, splits, true);
      streams = streamed <= seconds;
      seconds = std::min(seconds, streamed);
    }
    prediction.request += graph.steps * seconds;
    if (graph.kind == PhaseKind::Prefill) {
      prediction.prefill = seconds; // Graphs are in the order of their tokens.
      prediction.streams = streams;
      prediction.prompt += graph.steps * seconds;
    } else if (isDecode || graph.kind == PhaseKind::Logits) {
      prediction.decode += seconds;
    }
  }
  return prediction;
}

std::vector<double> StepPrediction::layerSeconds(const Assignment &assignment,
                                                 ArrayRef<int> layerOf,
                                                 size_t layers) const {
  std::vector<double> seconds(layers, 0);
  bool isOne = isJoined(assignment);
  for (const Graph &graph : graphs) {
    if (isOne && graph.kind == PhaseKind::Logits)
      continue;
    bool isDecode = graph.kind == PhaseKind::Decode;
    PlacedStep step =
        placed(isOne && isDecode ? joined->step : graph.step, assignment, {});
    ++simulated;
    std::vector<double> ends =
        moec::simulate(step.tasks, step.queues, target).ends;
    if (mayStream(graph)) {
      PlacedStep streamed = placed(graph.step, assignment, {}, true);
      ++simulated;
      moec::StepTimes times =
          moec::simulate(streamed.tasks, streamed.queues, target);
      if (!ends.empty() && streamed.wakeSeconds + times.end <
                               step.wakeSeconds + llvm::max_element(ends)[0]) {
        step = std::move(streamed);
        ends = std::move(times.ends);
      }
    }
    std::vector<double> last(layers, 0);
    for (auto [group, end] : llvm::zip_equal(step.groups, ends))
      if (int layer = group < 0 ? -1 : layerOf[size_t(group)]; layer >= 0)
        last[size_t(layer)] = std::max(last[size_t(layer)], end);
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
  bool isOne = isJoined(assignment);
  for (const Graph &graph : graphs)
    if (graph.kind == PhaseKind::Decode ||
        (graph.kind == PhaseKind::Logits && !isOne)) {
      PlacedStep step =
          placed(isOne ? joined->step : graph.step, assignment, splits);
      transfers.count += step.copies;
      transfers.seconds += step.copySeconds;
    }
  return transfers;
}

const StepPrediction::Graph *StepPrediction::longest() const {
  const Graph *longest = nullptr;
  for (const Graph &graph : graphs)
    if (graph.kind == PhaseKind::Prefill)
      longest = &graph; // They are in the order of their tokens.
  return longest;
}

double StepPrediction::longestStep(const Assignment &assignment,
                                   ArrayRef<ExpertSplit> splits,
                                   bool streams) const {
  const Graph *graph = longest();
  return graph ? secondsOf(*graph, assignment, splits, streams) : 0;
}

int64_t StepPrediction::streamsFrom(const Assignment &assignment,
                                    ArrayRef<ExpertSplit> splits) const {
  const Graph *graph = longest();
  if (!graph || problem.streaming().from == 0)
    return 0;
  func::FuncOp prefill =
      *llvm::find_if(problem.phases(), [](func::FuncOp function) {
        return phaseOf(function).getKind() == PhaseKind::Prefill;
      });
  StepGraphs all(target, mayPack, problem.streaming(), problem.phases(),
                 [&](Operation *op) { return problem.groupOf(op); });
  auto pays = [&](int64_t tokens) {
    StepGraph step = all.build(prefill, tokens);
    simulated += 2;
    return placed(step, assignment, splits, true).seconds(target) <=
           placed(step, assignment, splits).seconds(target);
  };
  int64_t low = 0, high = graph->tokens; // `low` does not pay.
  if (!pays(high))
    return 0;
  // Predictions are no more precise than the lengths that are compared.
  constexpr int64_t kPrecision = 32;
  while (high - low > std::max<int64_t>(1, high / kPrecision)) {
    int64_t middle = (low + high) / 2;
    (pays(middle) ? high : low) = middle;
  }
  return high;
}
