#include "passes/plan/PlanAhead.h"

#include "compiler/Machine/CostModel/TypicalStep.h"
#include "compiler/Machine/CostModel/WeightsInL2.h"
#include "kernels/cuda/Fuse.h"
#include "kernels/cuda/WeightsAhead.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::plan;
using moek::cuda::WeightReader;
using moek::cuda::WeightUse;

namespace {

/// A launch, and for each of its weights the instruction that reads it.
struct Reader {
  struct Weight {
    InstOp inst;
    moek::Format format;
  };
  WeightReader launch;
  SmallVector<Weight> weights;
};

bool isResident(Value weight, Value device) {
  return llvm::any_of(weight.getUsers(), [&](Operation *user) {
    auto resident = dyn_cast<ResidentOp>(user);
    return resident && resident.getDevice() == device &&
           resident.getMode() == ResidencyMode::Resident;
  });
}

/// Adds the weights that `inst` reads in a step of at most `tokens` tokens.
void addWeights(InstOp inst, int64_t tokens, Reader &reader) {
  const WeightUse use = moek::cuda::weightUseOf(inst.getSpec()->op);
  if (use == WeightUse::None)
    return;
  for (Value argument : inst.getArguments()) {
    if (!isa<WeightType>(argument.getType()) ||
        !isResident(argument, inst.getDevice()))
      continue;
    const WeightShape shape = shapeOf(argument);
    if (use == WeightUse::Whole) {
      reader.launch.weights.push_back(uint64_t(shape.bytes()));
      reader.weights.push_back({inst, shape.format});
      continue;
    }
    int64_t chosen = shape.outer;
    for (auto [name, value] :
         llvm::zip_equal(inst.getSpec()->ints, inst.getInts()))
      if (name == "top_k")
        chosen = std::min(chosen, value * tokens);
    reader.launch.otherBytes += uint64_t(chosen * shape.matrixBytes());
  }
}

bool canPrefetch(const InstOp::Launch &launch) {
  auto module = launch.module.getDefiningOp<plan::ModuleOp>();
  std::vector<std::string> words;
  for (StringAttr word : module.getDefines().getAsRange<StringAttr>())
    words.push_back(word.str());
  moek::cuda::Launch made;
  made.kernel = moek::cuda::specOf(module.getFile().str(),
                                   module.getEntry().str(), words);
  for (int axis = 0; axis < 3; ++axis)
    made.grid[axis] = uint32_t(launch.grid[axis]);
  return moek::cuda::canPrefetch(made);
}

/// Returns the launches of each queue of a GPU. What instructions without a
/// launch read belongs to the next launch of their queue.
llvm::MapVector<Value, std::vector<Reader>> readersOf(PhaseOp phase) {
  llvm::MapVector<Value, std::vector<Reader>> queues;
  llvm::DenseMap<Value, Reader> open;
  for (InstOp inst : phase.getBody().getOps<InstOp>()) {
    if (inst.getDevice().getDefiningOp<DeviceOp>().getKind() !=
        DeviceKind::Cuda)
      continue;
    Reader &reader = open[inst.getQueue()];
    reader.launch.isAfterWait |= !inst.getWaits().empty();
    addWeights(inst, phase.getMaxTokens(), reader);
    for (const InstOp::Launch &launch : inst.getLaunches()) {
      reader.launch.canPrefetch = canPrefetch(launch);
      queues[inst.getQueue()].push_back(std::exchange(reader, {}));
    }
  }
  return queues;
}

/// Returns the gemm of `inst` for weights of `format`; null if its kernel
/// multiplies them itself.
const moek::GemmInfo *gemmOf(InstOp inst, moek::Format format) {
  for (StringAttr name :
       llvm::drop_begin(inst.getKernels().getAsRange<StringAttr>()))
    if (const moek::GemmInfo *gemm =
            moek::findGemm(std::string_view(name.getValue()));
        gemm && gemm->format == format)
      return gemm;
  return nullptr;
}

} // namespace

llvm::DenseMap<Operation *, double>
plan::savedAhead(PhaseOp phase, const moec::TargetDesc &target) {
  llvm::DenseMap<Operation *, double> saved;
  auto kind = moert::phaseKindOf(std::string_view(phase.getName()));
  // The context does not matter for the number of tokens.
  const double tokens = double(
      kind
          ? moec::typicalStep(*kind, phase.getMaxTokens(), /*context=*/0).tokens
          : phase.getMaxTokens());
  for (auto &[queue, readers] : readersOf(phase)) {
    auto device =
        queue.getDefiningOp<QueueOp>().getDevice().getDefiningOp<DeviceOp>();
    const moec::DeviceDesc *gpu =
        target.find(std::string_view(device.getName()));
    if (!gpu)
      continue;
    std::vector<WeightReader> launches;
    for (const Reader &reader : readers)
      launches.push_back(reader.launch);
    for (const auto &ranges :
         moek::cuda::weightsAhead(launches, gpu->l2Bytes, gpu->peakRead()))
      for (const moek::cuda::AheadRange &range : ranges) {
        const Reader::Weight &weight =
            readers[range.launch].weights[range.weight];
        saved[weight.inst] += moec::secondsSavedByL2(
            double(range.bytes), gemmOf(weight.inst, weight.format), tokens,
            *gpu);
      }
  }
  return saved;
}
