#include "passes/moe/Placement.h"

#include "kernels/Activation.h"
#include "kernels/Arguments.h"
#include "kernels/KvCache.h"
#include "kernels/Scratch.h"
#include "kernels/cuda/Launch.h"
#include "passes/moe/Rings.h"
#include "passes/moe/SliceExperts.h"
#include "passes/moe/StreamExperts.h"
#include "passes/moe/Support.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/schema/OpTable.h"

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

/// Bytes of the buffers between an op's own instructions: what its gemms read,
/// encoded, and what they write.
int64_t innerBytes(Operation *op, int64_t tokens) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  int64_t slots = tokens;
  if (auto experts = dyn_cast<ExpertsOp>(op))
    slots *= cast<RankedTensorType>(experts.getIds().getType()).getDimSize(1);
  int64_t bytes = 0;
  for (const PlanStep &step : lowerable.getPlanSteps())
    for (Value weight : step.gemmWeights) {
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(weight.getType()).getShape();
      int64_t rows = shape[shape.size() - 2], cols = shape.back();
      bytes += slots * (rows * 4 + moek::a8RowBytes(cols));
    }
  return bytes;
}

/// Of an op that is not lowered yet, as kernels/Arguments.h asks for them:
/// parameters alone, which workspaces follow from.
class Parameters {
public:
  explicit Parameters(Operation *op) : op(op) {}

  int32_t integer(std::string_view name) const {
    auto attribute = op->getAttrOfType<IntegerAttr>(StringRef(name));
    return attribute ? int32_t(attribute.getInt()) : 0;
  }
  bool boolean(std::string_view) const { return false; }
  float real(std::string_view) const { return 0; }
  bool has(std::string_view) const { return false; }
  uint8_t *bytes(std::string_view) const { return nullptr; }
  int64_t cols(std::string_view) const { return 0; }
  int64_t rowsPerToken(std::string_view) const { return 0; }
  int64_t fixedRows(std::string_view) const { return 0; }
  moek::Encoding encoding(std::string_view) const {
    return moek::Encoding::F32;
  }
  std::span<const float> constant(std::string_view) const { return {}; }
  moek::WeightView weight(std::string_view) const { return {}; }
  moek::KvView cache(std::string_view) const { return {}; }
  moek::GemmFn gemm(std::string_view) const { return nullptr; }
  moek::Encoding gemmEncoding(std::string_view) const {
    return moek::Encoding::F32;
  }

private:
  Operation *op;
};

/// Bytes that a GPU's launches of an op use besides: of the memory that the
/// launches of all ops share.
int64_t workspaceBytes(Operation *op,
                       const moek::cuda::LaunchContext &context) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  int64_t bytes = 0;
  Parameters parameters(op);
  for (const PlanStep &step : lowerable.getPlanSteps())
    moek::withArguments(step.op, parameters, [&](const auto &args) {
      bytes =
          std::max(bytes, moek::cuda::workspaceBytes(step.op, &args, context));
    });
  return int64_t(moert::alignUp(uint64_t(bytes), moert::kRegionAlignment));
}

/// Private bytes that a worker needs for an op.
int64_t scratchBytes(Operation *op) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  const PlanStep *current = nullptr;
  auto parameter = [&](std::string_view name) -> int64_t {
    if (name == "cols")
      return cast<RankedTensorType>(current->gemmWeights.front().getType())
          .getShape()
          .back();
    if (auto attribute = op->getAttrOfType<IntegerAttr>(StringRef(name)))
      return attribute.getInt();
    Value choosesBy;
    if (auto router = dyn_cast<RouterOp>(op))
      choosesBy = router.getWeight();
    else if (auto hashed = dyn_cast<HashRouterOp>(op))
      choosesBy = hashed.getWeight();
    return choosesBy && name == "experts"
               ? cast<RankedTensorType>(choosesBy.getType()).getDimSize(0)
               : 0;
  };
  int64_t bytes = 0;
  SmallVector<PlanStep> steps = lowerable.getPlanSteps();
  for (const PlanStep &step : steps) {
    current = &step;
    bytes = std::max(bytes,
                     moert::findOp(unsigned(step.op))->scratchBytes(parameter));
    // Two gemms may be fused to one instruction later.
    if (!step.gemmWeights.empty())
      bytes = std::max(bytes, moek::gateUpScratchBytes());
  }
  return bytes;
}

} // namespace

size_t moe::gpuCount(const moec::TargetDesc &target) {
  return size_t(llvm::count_if(target.devices, [](const auto &device) {
    return device.kind == moec::DeviceKind::Cuda;
  }));
}

const moec::DeviceDesc &moe::expectedDevice(Operation *attention,
                                            const moec::TargetDesc &target) {
  if (auto name = attention->getAttrOfType<StringAttr>(kDeviceAttr))
    if (const auto *device = target.find(std::string_view(name.getValue())))
      return *device;
  return gpuCount(target) ? target.devices.front() : target.host();
}

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

int PlacementProblem::deviceOf(Operation *op,
                               const Assignment &assignment) const {
  int group = op ? groupOf(op) : -1;
  return group < 0 ? hostIndex() : assignment[group];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static const ExpertSplit *splitOf(int group, ArrayRef<ExpertSplit> splits) {
  auto it = llvm::find_if(
      splits, [&](const ExpertSplit &split) { return split.group == group; });
  return it == splits.end() ? nullptr : it;
}

std::vector<DeviceUse>
PlacementProblem::memoryUse(const Assignment &assignment,
                            ArrayRef<ExpertSplit> splits) const {
  std::vector<DeviceUse> use(target.devices.size());
  std::vector<WeightSet> weights(use.size());
  for (auto [group, device] : llvm::zip_equal(groupList, assignment)) {
    use[device].kv += group.kvBytes;
    for (auto [name, bytes] : group.weights)
      if (weights[device].insert({name, bytes}).second)
        use[device].weights += bytes;
  }
  for (const ExpertSplit &split : splits) {
    int64_t bytes = groupList[split.group].weightBytes / split.experts;
    // What is not divided, such as a view's whole tensor, counts twice.
    use[split.device].weights += (bytes + 1) * split.count();
    // Others than the first are put together, beside the whole tensors.
    if (areFirst(split.chosen))
      use[assignment[split.group]].weights -= bytes * split.count();
  }
  for (func::FuncOp function : functions)
    addFunction(function, assignment, splits, use);
  return use;
}

/// Activations are those alive at the worst op, plus its own buffers as if all
/// of them lived through it: at least what plan-allocate will need.
void PlacementProblem::addFunction(func::FuncOp function,
                                   const Assignment &assignment,
                                   ArrayRef<ExpertSplit> splits,
                                   std::vector<DeviceUse> &use) const {
  Block &body = function.getBody().front();
  PhaseAttr phase = phaseOf(function);
  int64_t tokens = phase.getMaxTokens();
  llvm::DenseMap<Operation *, int64_t> order;
  for (Operation &op : body)
    order[&op] = int64_t(order.size());

  // As plan-launches has it.
  auto contextOn = [&](const moec::DeviceDesc &gpu) {
    return moek::cuda::contextOf(int32_t(tokens), int32_t(mostSequences),
                                 mostPositions, gpu.arch, gpu.cores);
  };

  size_t devices = use.size();
  std::vector<std::vector<int64_t>> change(
      devices, std::vector<int64_t>(order.size() + 1));
  std::vector<int64_t> largestCopy(devices);
  auto addValue = [&](Value value, int home, int64_t begin) {
    int64_t bytes = bytesOf(value, tokens);
    if (bytes == 0)
      return;
    SmallVector<int64_t> lastUse(devices, -1);
    lastUse[home] = begin;
    for (Operation *user : value.getUsers()) {
      auto use = [&](int device) {
        lastUse[device] = std::max(lastUse[device], order.lookup(user));
      };
      use(deviceOf(user, assignment));
      if (const ExpertSplit *split = splitOf(groupOf(user), splits))
        use(split->device);
    }
    for (size_t device = 0; device < devices; ++device) {
      if (lastUse[device] < 0)
        continue;
      change[device][begin] += bytes;
      change[device][lastUse[device] + 1] -= bytes;
      if (int(device) != home)
        for (int end : {home, int(device)})
          largestCopy[end] = std::max(largestCopy[end], bytes);
    }
  };
  for (Value argument : body.getArguments())
    addValue(argument, hostIndex(), 0);
  for (Operation &op : body) {
    int device = deviceOf(&op, assignment);
    int64_t index = order[&op];
    for (Value result : op.getResults())
      addValue(result, device, index);
    auto addInside = [&](int device, int64_t inside) {
      change[device][index] += inside;
      change[device][index + 1] -= inside;
      const moec::DeviceDesc &desc = target.devices[device];
      int64_t scratch = desc.kind == moec::DeviceKind::Cpu
                            ? scratchBytes(&op) * int64_t(desc.cores)
                            : workspaceBytes(&op, contextOn(desc));
      use[device].scratch = std::max(use[device].scratch, scratch);
    };
    int64_t inside = innerBytes(&op, tokens);
    addInside(device, inside);
    if (const ExpertSplit *split = splitOf(groupOf(&op), splits)) {
      // Both sums and the lists of slots, on either.
      int64_t sums = 0;
      for (Value value : std::initializer_list<Value>{
               op.getResult(0), op.getOperand(1), op.getOperand(1)})
        sums += bytesOf(value, tokens);
      sums += 4 * (split->experts + 1);
      addInside(split->device, inside + 2 * sums);
      addInside(device, 2 * sums);
      // The rest's sum, if no other value is copied between the two.
      for (int end : {device, split->device})
        largestCopy[end] =
            std::max(largestCopy[end], bytesOf(op.getResult(0), tokens));
    }
  }
  for (size_t device = 0; device < devices; ++device) {
    int64_t live = 0, peak = 0;
    for (int64_t delta : change[device])
      peak = std::max(peak, live += delta);
    use[device].activations = std::max(use[device].activations, peak);
    use[device].staging =
        std::max(use[device].staging, 2 * largestCopy[device]);
  }
}
