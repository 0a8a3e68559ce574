#include "passes/moe/placement/Placement.h"

#include "llvm/ADT/SetVector.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/placement/StreamableExperts.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

PlacementProblem::PlacementProblem(ModuleOp module,
                                   const moec::TargetDesc &target,
                                   Streaming streaming)
    : functions(module.getOps<func::FuncOp>()), target(target), weights(module),
      streams(streaming) {
  for (func::FuncOp function : functions) {
    PhaseAttr phase = phaseOf(function);
    mostPositions = std::max(mostPositions, phase.getContextLength());
    mostSequences = std::max(mostSequences, phase.getSequences());
  }
  kvRowCount = kvRowsOf(module, mostPositions);
  GroupIndex known;
  for (func::FuncOp function : functions) {
    PhaseAttr phase = phaseOf(function);
    function.walk([&](CostOpInterface op) { addOp(op, phase, known); });
  }
  for (func::FuncOp function : functions)
    function.walk([&](AlternativesOp op) { addReaders(op); });
  for (OpGroup &group : groupList)
    for (auto [name, bytes] : group.weights)
      group.weightBytes += bytes;
  if (func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
      prefill && streams.from != 0)
    addStreamed(prefill);
  numberWeights();
  for (func::FuncOp function : functions)
    addMemory(function);
}

void PlacementProblem::addOp(Operation *op, PhaseAttr phase,
                             GroupIndex &known) {
  int index = int(groupList.size());
  auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
  auto only = op->getAttrOfType<ArrayAttr>(kOnlyOnAttr);
  // An op without a label is a group of its own.
  if (auto label = op->getAttrOfType<LabelAttr>(kLabelAttr))
    index = known.try_emplace({label, device, only}, index).first->second;
  if (index == int(groupList.size())) {
    groupList.emplace_back();
    groupList.back().label = labelOf(op);
    groupList.back().layer = layerOf(op);
    if (device)
      groupList.back().device =
          int(target.find(std::string_view(device.getValue())) -
              target.devices.data());
    if (only)
      for (const moec::DeviceDesc &desc : target.devices)
        groupList.back().only.push_back(existsOn(op, desc));
  }
  groupIndex[op] = index;
  OpGroup &group = groupList[index];
  group.ops.push_back(op);

  // Streamed experts only keep their biases on the device, and tables that are
  // read by rows stay in the model file.
  SmallVector<Value> elsewhere{fileTableOf(op)};
  if (auto experts = dyn_cast<ExpertsOp>(op);
      experts && op->hasAttr(kStreamedAttr))
    elsewhere = {experts.getGate(), experts.getUp(), experts.getDown()};
  for (Value operand : op->getOperands())
    if (isWeight(operand) && !llvm::is_contained(elsewhere, operand))
      group.weights.insert(residentBytes(operand));
  if (auto cache = dyn_cast<CacheOpInterface>(op))
    group.kvBytes = cacheBytesOf(cache, kvRowCount);
  if (auto state = dyn_cast<StateOpInterface>(op))
    group.kvBytes = state.getStateWidth() * int64_t(sizeof(float)) *
                    stateRowsOf(op->getParentOfType<ModuleOp>());

  auto costed = cast<CostOpInterface>(op);
  Cost cost = costed.getCost(1, typicalStep(phase).cached);
  if (int64_t resident = costed.getResidentWeightBytes())
    group.readFraction =
        std::max(group.readFraction, cost.weightBytes / double(resident));
  if (isOfOneToken(phase))
    group.decodeCost += cost;
}

/// Tells the groups of all ways of an attention which group reads its cache. A
/// rule places all that read a cache, and they are in one unit otherwise, so
/// that any of them will do.
void PlacementProblem::addReaders(AlternativesOp alternatives) {
  SetVector<Operation *> ops;
  int reader = -1;
  auto add = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && op->hasAttr(kOnlyOnAttr))
      ops.insert(op);
  };
  for (Value way : alternatives.getWays())
    add(way);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (readsCache(ops[i]))
      reader = groupOf(ops[i]);
    for (Value operand : ops[i]->getOperands())
      add(operand);
  }
  for (Operation *op : ops)
    if (int group = groupOf(op); group >= 0)
      groupList[group].reader = reader;
}

void PlacementProblem::markAbsent(Assignment &assignment) const {
  const Assignment devices = assignment;
  for (auto [index, group] : llvm::enumerate(groupList))
    if (group.reader >= 0 && !group.existsOn(devices[group.reader]))
      assignment[index] = kAbsent;
}

void PlacementProblem::addStreamed(func::FuncOp prefill) {
  const StreamableExperts streamable(prefill);
  prefill.walk([&](ExpertsOp op) {
    Operation *router = op.getIds().getDefiningOp();
    OpGroup &group = groupList[groupOf(op)];
    group.router = router ? groupOf(router) : -1;
    group.slotBytes = StreamableExperts::slotBytes(op);
    group.keptBytes = StreamableExperts::keptBytes(op);
    for (const moec::DeviceDesc &device : target.devices)
      group.streamsTo.push_back(
          streamable.obstacle(op, target.host(), device).empty());
  });
}

bool PlacementProblem::lacksStreaming(const Assignment &assignment) const {
  if (!streams.must)
    return false;
  const std::vector<const ExpertSplit *> none(assignment.size());
  bool onHost = false;
  for (int index = 0; index < int(groupList.size()); ++index) {
    if (streamedTo(index, assignment, none) != kAbsent)
      return false;
    onHost |= groupList[index].router >= 0 && assignment[index] == hostIndex();
  }
  return onHost;
}

int PlacementProblem::streamedTo(int index, const Assignment &assignment,
                                 ArrayRef<const ExpertSplit *> splitOf) const {
  const OpGroup &group = groupList[index];
  const ExpertSplit *split = splitOf[index];
  if (group.router < 0 || assignment[index] != hostIndex() ||
      (split && !areLeadingExperts(split->chosen)))
    return kAbsent;
  int gpu = assignment[group.router];
  return gpu != kAbsent && group.streamsTo[gpu] ? gpu : kAbsent;
}

std::pair<StringAttr, int64_t>
PlacementProblem::residentBytes(Value weight) const {
  WeightOp resident = weights.residentOf(weights.of(weight));
  return {resident.getSymNameAttr(), getTensorBytes(resident.getTensorType())};
}

int64_t PlacementProblem::bytesOf(Value value, int64_t tokens) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || isWeight(value))
    return 0;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? tokens : size;
  return bytes;
}

double PlacementProblem::weightElements() const {
  llvm::DenseSet<StringAttr> counted;
  double elements = 0;
  for (const OpGroup &group : groupList)
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (isWeight(operand) && group.existsOn(hostIndex()) &&
            counted.insert(residentBytes(operand).first).second)
          elements += double(
              cast<RankedTensorType>(operand.getType()).getNumElements());
  return elements;
}
