#include "passes/moe/placement/Placement.h"

#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

PlacementProblem::PlacementProblem(ModuleOp module,
                                   const moec::TargetDesc &target)
    : functions(module.getOps<func::FuncOp>()), target(target),
      weights(module) {
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
  for (OpGroup &group : groupList)
    for (auto [name, bytes] : group.weights)
      group.weightBytes += bytes;
  numberWeights();
  for (func::FuncOp function : functions)
    addMemory(function);
}

void PlacementProblem::addOp(Operation *op, PhaseAttr phase,
                             GroupIndex &known) {
  int index = int(groupList.size());
  auto device = op->getAttrOfType<StringAttr>(kDeviceAttr);
  // An op without a label is a group of its own.
  if (auto label = op->getAttrOfType<LabelAttr>(kLabelAttr))
    index = known.try_emplace({label, device}, index).first->second;
  if (index == int(groupList.size())) {
    groupList.emplace_back();
    groupList.back().label = labelOf(op);
    groupList.back().layer = layerOf(op);
    if (device)
      groupList.back().device =
          int(target.find(std::string_view(device.getValue())) -
              target.devices.data());
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
        if (isWeight(operand) &&
            counted.insert(residentBytes(operand).first).second)
          elements += double(
              cast<RankedTensorType>(operand.getType()).getNumElements());
  return elements;
}
