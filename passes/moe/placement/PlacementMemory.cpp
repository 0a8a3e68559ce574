//===- PlacementMemory.cpp - Memory that devices need ---------------------===//

#include "kernels/Activation.h"
#include "kernels/Arguments.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"
#include "kernels/cuda/FloatGemmCycles.h"
#include "kernels/cuda/LaunchGemm.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/kernels/KernelSelection.h"
#include "passes/moe/placement/Placement.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/schema/OpTable.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Returns the format of a weight's elements, or none if kernels read them as
/// they read activations.
std::optional<moek::Format> formatOf(Value weight) {
  return getFormat(cast<RankedTensorType>(weight.getType()).getElementType());
}

/// Returns whether a weight's rows are blocks of quantised values. Gemms
/// multiply such rows with quantised activations.
bool hasBlocks(Value weight) {
  std::optional<moek::Format> format = formatOf(weight);
  return format && moek::formatInfo(*format).blockElements > 1;
}

/// Returns the bytes of a step's partial sums if attention on a GPU divides the
/// cache into KV splits.
int64_t partialSumBytes(LowerableOpInterface op, int64_t tokens,
                        const moec::DeviceDesc &device) {
  if (device.kind == moec::DeviceKind::Cpu)
    return 0;
  auto temporaryBytes = [&](const Execution &execution) {
    int64_t bytes = 0;
    Instructions instructions = op.getInstructions(execution);
    for (const BufferShape &buffer : instructions.buffers())
      if (!buffer.result && buffer.encoding == moek::Encoding::F32)
        bytes += tokens * buffer.rowsPerToken * buffer.cols * 4;
    return bytes;
  };
  Execution onGpu;
  onGpu.multiprocessors = device.cores;
  return temporaryBytes(onGpu) - temporaryBytes({});
}

/// Returns the most bytes that buffers between an op's own instructions take at
/// once: encoded inputs of its gemms, and their outputs. The gemms that read
/// the op's input come first. Their outputs become one row per slot, which the
/// last gemm reads. The op's results are counted as values instead.
int64_t innerBytes(Operation *op, const PhaseAttr &phase,
                   const moec::DeviceDesc &device) {
  int64_t tokens = phase.getMaxTokens();
  // Every token has a float score for each entry of the cache, and those that a
  // bound keeps; scores of blocks are not needed as long.
  if (auto choose = dyn_cast<ChooseEntriesOp>(op))
    return tokens * 4 *
           (choose.getScores() * (choose.getWithin() ? 2 : 1) +
            (choose.getBlocks() ? choose.getBlockScores() : 0));
  if (auto choose = dyn_cast<ChooseBlocksOp>(op))
    return tokens * 4 * int64_t(choose.getGroups()) *
           std::max<int64_t>(1, phase.getContextLength() / choose.getRatio());
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  int64_t slots = tokens;
  if (auto experts = dyn_cast<ExpertsOp>(op))
    slots *= cast<RankedTensorType>(experts.getIds().getType()).getDimSize(1);
  const bool fuses = canFuseGateUp(op, device);
  int64_t encoded = 0, written = 0;
  int64_t most = partialSumBytes(lowerable, tokens, device);
  for (const Instruction &instruction : lowerable.getInstructions({}))
    for (Value weight : instruction.gemmWeights()) {
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(weight.getType()).getShape();
      int64_t rows = shape[shape.size() - 2], cols = shape.back();
      const Operand *activation = instruction.activation();
      bool isInner =
          activation && activation->kind() == Operand::Kind::Temporary;
      if (isInner) {
        // The input as floats, plus its quantised copy if the gemm reads that.
        int64_t floats = slots * cols * 4,
                codes = slots * moek::a8RowBytes(cols);
        bool readsCodes = hasBlocks(weight);
        most = std::max(most, floats + (readsCodes ? codes : 0));
        encoded = 0;
        written = readsCodes ? codes : floats;
      } else {
        // Other ops that read the input share its quantised copy.
        encoded = std::max(encoded, tokens * moek::a8RowBytes(cols));
      }
      if (fuses && !isInner)
        written = slots * rows * 4; // One output for gate and up.
      else if (!isa<LmHeadOp>(op))
        written += slots * rows * 4;
      most = std::max(most, encoded + written);
    }
  return most;
}

/// Arguments of an op that is not lowered yet, with the interface that
/// kernels/Arguments.h expects. Only parameters are known; they determine the
/// size of workspaces.
class Parameters {
public:
  explicit Parameters(Operation *op) : op(op) {}

  int32_t integer(std::string_view name) const {
    auto attribute = op->getAttrOfType<IntegerAttr>(StringRef(name));
    return attribute ? int32_t(attribute.getInt()) : 0;
  }
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

/// Returns the bytes of workspace that a GPU's launches of an op need. The
/// launches of all ops share this memory.
int64_t workspaceBytes(Operation *op,
                       const moek::cuda::LaunchContext &context) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  int64_t bytes = 0, slots = context.maxTokens;
  if (auto experts = dyn_cast<ExpertsOp>(op))
    slots *= cast<RankedTensorType>(experts.getIds().getType()).getDimSize(1);
  Parameters parameters(op);
  for (const Instruction &instruction : lowerable.getInstructions({})) {
    moek::withArguments(instruction.op, parameters, [&](const auto &args) {
      bytes = std::max(
          bytes, moek::cuda::workspaceBytes(instruction.op, &args, context));
    });
    // Sums of products' last tiles and activations of products by HalfGemm.cu,
    // which the parameters do not tell.
    bool hasTail = context.maxTokens > moek::cuda::kFewRows &&
                   moek::cuda::hasTail(instruction.op);
    for (Value weight : instruction.gemmWeights()) {
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(weight.getType()).getShape();
      int64_t tail =
          hasTail ? moek::cuda::mostTailBytes(context, shape.back()) : 0;
      int64_t narrowed = 0;
      if (!hasBlocks(weight) || moek::cuda::hasPanelProducts(context.arch)) {
        int64_t heads =
            instruction.op == moek::OpCode::HeadLinear ? shape[0] : 1;
        narrowed = moek::cuda::narrowBytes(
            formatOf(weight).value_or(moek::Format::F32), slots * heads,
            shape.back());
      }
      bytes = std::max(bytes, narrowed + tail);
    }
  }
  return int64_t(moert::alignUp(uint64_t(bytes), moert::kRegionAlignment));
}

/// Returns the bytes of private memory that a worker needs for an op.
int64_t scratchBytes(Operation *op) {
  auto lowerable = dyn_cast<LowerableOpInterface>(op);
  if (!lowerable)
    return 0;
  int64_t bytes = 0;
  for (const Instruction &instruction : lowerable.getInstructions({})) {
    auto parameter = [&](std::string_view name) {
      return instruction.integer(name);
    };
    bytes = std::max(bytes, instruction.spec().scratchBytes(parameter));
    // A later pass may fuse two gemms into one instruction.
    if (!instruction.gemmWeights().empty())
      bytes = std::max(bytes, moek::gateUpScratchBytes());
  }
  return bytes;
}

} // namespace

//===----------------------------------------------------------------------===//
// Facts that do not depend on an assignment
//===----------------------------------------------------------------------===//

void PlacementProblem::numberWeights() {
  llvm::DenseMap<StringAttr, int> numbers;
  for (const OpGroup &group : groupList) {
    groupWeights.emplace_back();
    for (auto [name, bytes] : group.weights)
      groupWeights.back().push_back(
          {numbers.try_emplace(name, int(numbers.size())).first->second,
           bytes});
  }
  weightCount = numbers.size();
}

void PlacementProblem::addMemory(func::FuncOp function) {
  PhaseAttr phase = phaseOf(function);
  int64_t tokens = phase.getMaxTokens();
  // The same contexts as in plan-launches.
  SmallVector<moek::cuda::LaunchContext> contexts;
  for (const moec::DeviceDesc &device : target.devices)
    contexts.push_back(
        moek::cuda::contextOf(int32_t(tokens), int32_t(mostSequences),
                              mostPositions, device.arch, device.cores));

  Block &body = function.getBody().front();
  llvm::DenseMap<Operation *, int> order;
  for (Operation &op : body)
    order[&op] = int(order.size());
  FunctionMemory memory;
  auto addValue = [&](Value value, int group, int begin) {
    int64_t bytes = bytesOf(value, tokens);
    if (bytes == 0 || value.getDefiningOp<AlternativesOp>())
      return;
    ValueMemory known{group, begin, bytes, {}};
    auto addUsers = [&](Value read) {
      for (Operation *user : read.getUsers())
        if (!isa<AlternativesOp>(user))
          known.users.push_back({groupOf(user), order.lookup(user)});
    };
    addUsers(value);
    for (Operation *user : value.getUsers())
      if (auto all = dyn_cast<AlternativesOp>(user))
        addUsers(all.getResult());
    memory.values.push_back(std::move(known));
  };
  for (Value argument : body.getArguments())
    addValue(argument, -1, 0);
  for (Operation &op : body) {
    OpMemory known{groupOf(&op), {}, {}, 0, 0};
    for (Value result : op.getResults())
      addValue(result, known.group, order[&op]);
    int64_t worker = scratchBytes(&op);
    for (auto [device, context] : llvm::zip_equal(target.devices, contexts)) {
      known.inside.push_back(innerBytes(&op, phase, device));
      known.scratch.push_back(device.kind == moec::DeviceKind::Cpu
                                  ? worker * int64_t(device.cores)
                                  : workspaceBytes(&op, context));
    }
    if (isa<ExpertsOp>(op)) {
      known.sumBytes = bytesOf(op.getResult(0), tokens);
      known.choiceBytes = bytesOf(op.getOperand(1), tokens);
    }
    memory.ops.push_back(std::move(known));
  }
  functionMemory.push_back(std::move(memory));
}

//===----------------------------------------------------------------------===//
// Memory of an assignment
//===----------------------------------------------------------------------===//

std::vector<int64_t> moe::totalsOf(ArrayRef<DeviceUse> use) {
  std::vector<int64_t> totals;
  for (const DeviceUse &device : use)
    totals.push_back(device.total());
  return totals;
}

std::vector<DeviceUse>
PlacementProblem::memoryUse(const Assignment &assignment,
                            ArrayRef<ExpertSplit> splits) const {
  ++checks;
  std::vector<DeviceUse> use(target.devices.size());
  std::vector<bool> counted(use.size() * weightCount);
  for (auto [index, group] : llvm::enumerate(groupList)) {
    int device = assignment[index];
    if (device == kAbsent)
      continue;
    use[device].kv += group.kvBytes;
    // Devices that share a memory read the same bytes.
    size_t memory = target.memoryOf(size_t(device));
    for (auto [number, bytes] : groupWeights[index]) {
      size_t cell = memory * weightCount + size_t(number);
      if (!counted[cell])
        use[device].weights += bytes;
      counted[cell] = true;
    }
  }
  std::vector<const ExpertSplit *> splitOf(groupList.size());
  for (const ExpertSplit &split : splits) {
    splitOf[split.group] = &split;
    int64_t bytes = groupList[split.group].weightBytes / split.experts;
    // Memory that is not divided, such as the whole tensor of a view, counts
    // twice.
    use[split.device].weights += (bytes + 1) * split.count();
    // Only the first experts leave the rest's device; others are copied next to
    // the whole tensors.
    if (areLeadingExperts(split.chosen))
      use[assignment[split.group]].weights -= bytes * split.count();
  }
  for (const FunctionMemory &function : functionMemory)
    addFunction(function, assignment, splitOf, use);
  if (streams.from != 0)
    addStreaming(assignment, splitOf, use);
  return use;
}

/// Adds what the GPUs need for experts that are copied to them: slots, what
/// they keep of these experts, and the activations of the longest step.
void PlacementProblem::addStreaming(const Assignment &assignment,
                                    ArrayRef<const ExpertSplit *> splitOf,
                                    std::vector<DeviceUse> &use) const {
  Assignment there = assignment;
  bool any = false;
  for (int index = 0; index < int(groupList.size()); ++index) {
    int gpu = streamedTo(index, assignment, splitOf);
    if (gpu == kAbsent)
      continue;
    use[gpu].weights += groupList[index].keptBytes;
    use[gpu].slots = std::max(use[gpu].slots, groupList[index].slotBytes);
    there[index] = gpu;
    any = true;
  }
  for (auto [function, memory] : llvm::zip_equal(functions, functionMemory))
    if (any && phaseOf(function).getKind() == PhaseKind::Prefill)
      addFunction(memory, there, splitOf, use);
}

/// Adds one function. Its activations are those alive at the worst op, plus
/// that op's own buffers.
void PlacementProblem::addFunction(const FunctionMemory &function,
                                   const Assignment &assignment,
                                   ArrayRef<const ExpertSplit *> splitOf,
                                   std::vector<DeviceUse> &use) const {
  size_t devices = use.size();
  // Arguments and returned values have no group; they are on the host.
  auto deviceOf = [&](int group) {
    return group < 0 ? hostIndex() : assignment[group];
  };
  std::vector<std::vector<int64_t>> change(
      devices, std::vector<int64_t>(function.ops.size() + 1));
  std::vector<int64_t> largestCopy(devices);
  SmallVector<int> lastUse;
  for (const ValueMemory &value : function.values) {
    int home = deviceOf(value.group);
    if (home == kAbsent)
      continue;
    lastUse.assign(devices, -1);
    lastUse[home] = value.begin;
    for (auto [group, position] : value.users) {
      int device = deviceOf(group);
      if (device == kAbsent)
        continue;
      lastUse[device] = std::max(lastUse[device], position);
      if (group >= 0 && splitOf[group])
        lastUse[splitOf[group]->device] =
            std::max(lastUse[splitOf[group]->device], position);
    }
    for (size_t device = 0; device < devices; ++device) {
      if (lastUse[device] < 0)
        continue;
      change[device][value.begin] += value.bytes;
      change[device][lastUse[device] + 1] -= value.bytes;
      if (int(device) != home)
        for (int end : {home, int(device)})
          largestCopy[end] = std::max(largestCopy[end], value.bytes);
    }
  }
  for (auto [index, op] : llvm::enumerate(function.ops)) {
    auto addInside = [&, index = index](int device, int64_t inside,
                                        int64_t scratch) {
      change[device][index] += inside;
      change[device][index + 1] -= inside;
      use[device].scratch = std::max(use[device].scratch, scratch);
    };
    int device = deviceOf(op.group);
    if (device == kAbsent)
      continue;
    addInside(device, op.inside[device], op.scratch[device]);
    if (const ExpertSplit *split = op.group < 0 ? nullptr : splitOf[op.group]) {
      // Each device has both results and the lists of slots.
      int64_t sums =
          op.sumBytes + 2 * op.choiceBytes + 4 * (split->experts + 1);
      addInside(split->device, op.inside[split->device] + 2 * sums,
                op.scratch[split->device]);
      addInside(device, 2 * sums, op.scratch[device]);
      // The rest's result is copied, even if no other value is.
      for (int end : {device, split->device})
        largestCopy[end] = std::max(largestCopy[end], op.sumBytes);
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
