#include "passes/moe/placement/Placement.h"

#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// The tensor of the file, or the computed one, that `weight` is or views, and
/// its name.
std::pair<StringAttr, int64_t> residentTensor(Value weight) {
  Operation *producer = weight.getDefiningOp();
  if (auto split = dyn_cast<SplitKvBOp>(producer))
    return residentTensor(split.getWeight());
  if (auto slice = dyn_cast<SliceOp>(producer))
    return residentTensor(slice.getWeight());
  int64_t bytes = getTensorBytes(cast<RankedTensorType>(weight.getType()));
  if (auto fold = dyn_cast<FoldQueryOp>(producer)) {
    StringAttr base = residentTensor(fold.getWq()).first;
    return {StringAttr::get(base.getContext(), base.getValue() + " (folded)"),
            bytes};
  }
  if (auto transpose = dyn_cast<TransposeOp>(producer)) {
    StringAttr base = residentTensor(transpose.getWeight()).first;
    return {
        StringAttr::get(base.getContext(), base.getValue() + " (transposed)"),
        bytes};
  }
  if (auto experts = dyn_cast<SliceExpertsOp>(producer)) {
    StringAttr base = residentTensor(experts.getWeight()).first;
    return {StringAttr::get(base.getContext(), base.getValue() + " from " +
                                                   Twine(experts.getBegin())),
            bytes};
  }
  if (auto stack = dyn_cast<StackOp>(producer)) {
    StringAttr first = residentTensor(stack.getWeights().front()).first;
    return {
        StringAttr::get(first.getContext(), first.getValue() + " (stacked)"),
        bytes};
  }
  return {cast<WeightOp>(producer).getRef().getName(), bytes};
}

} // namespace

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

PlacementProblem::PlacementProblem(ModuleOp module,
                                   const moec::TargetDesc &target)
    : functions(module.getOps<func::FuncOp>()), target(target) {
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

  // Of experts that are streamed only their biases stay.
  SmallVector<Value> streamed;
  if (auto experts = dyn_cast<ExpertsOp>(op);
      experts && op->hasAttr(kStreamedAttr))
    streamed = {experts.getGate(), experts.getUp(), experts.getDown()};
  for (Value operand : op->getOperands())
    if (isWeight(operand) && !llvm::is_contained(streamed, operand))
      group.weights.insert(residentTensor(operand));
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
  llvm::DenseSet<Attribute> counted;
  double elements = 0;
  for (const OpGroup &group : groupList)
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (isWeight(operand) &&
            counted.insert(residentTensor(operand).first).second)
          elements += double(
              cast<RankedTensorType>(operand.getType()).getNumElements());
  return elements;
}
