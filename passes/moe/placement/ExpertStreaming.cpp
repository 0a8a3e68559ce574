#include "passes/moe/placement/ExpertStreaming.h"

#include "compiler/Machine/CostModel/CostModel.h"
#include "kernels/cuda/Launch.h"
#include "passes/moe/kernels/KernelSelection.h"
#include "passes/moe/kernels/OpSeconds.h"
#include "passes/moe/placement/Placement.h"
#include "passes/schedule/Schedule.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

/// The longest step that --ubatch allows.
static constexpr int64_t kMostRows = int64_t(1) << 16;

static ArrayRef<int64_t> shapeOf(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getShape();
}

/// Returns the most bytes that a matrix of `weight` takes in any layout.
static int64_t mostMatrixBytes(Value weight) {
  moek::Format format =
      *getFormat(cast<RankedTensorType>(weight.getType()).getElementType());
  int64_t rows = shapeOf(weight)[1], cols = shapeOf(weight)[2], most = 0;
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number)
    if (number == 0 || moek::hasLayout(*layout, format, cols))
      most = std::max(most, int64_t(moek::storedRows(*layout, rows) *
                                    moek::rowBytes(*layout, format, cols)));
  return most;
}

/// Returns whether the GPU can read `weight` in every layout that the CPU may
/// use, with its matrices stored contiguously.
static bool isReadByBoth(WeightOp weight, const WeightTable &weights,
                         const moec::DeviceDesc &gpu, int64_t rows) {
  Matrices m(weight.getTensorType());
  std::optional<StoredBytes> stored = weights.locate(weight);
  if (stored && stored->outerStride != m.matrixBytes())
    return false;
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number)
    if ((number == 0 || moek::hasLayout(*layout, m.format, m.cols)) &&
        !chooseGemm(m.format, *layout, gpu, rows))
      return false;
  return true;
}

ExpertStreaming::ExpertStreaming(func::FuncOp prefill, DeviceOf deviceOf,
                                 bool mayPack)
    : prefill(prefill), phase(phaseOf(prefill)), mayPack(mayPack) {
  WeightTable weights(prefill->getParentOfType<ModuleOp>());
  prefill.walk([&](ExpertsOp op) {
    const moec::DeviceDesc *host = deviceOf(op);
    if (!host || host->kind != moec::DeviceKind::Cpu)
      return;
    Operation *router = op.getIds().getDefiningOp();
    std::string obstacle =
        addCandidate(op, weights, *host, router ? deviceOf(router) : nullptr);
    if (firstObstacle.empty())
      firstObstacle = std::move(obstacle);
  });
}

ExpertStreaming::ExpertStreaming(func::FuncOp prefill,
                                 const moec::TargetDesc &target, bool mayPack)
    : ExpertStreaming(
          prefill,
          [&](Operation *op) {
            auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
            return name ? target.find(std::string_view(name.getValue()))
                        : nullptr;
          },
          mayPack) {}

std::string ExpertStreaming::addCandidate(ExpertsOp op,
                                          const WeightTable &weights,
                                          const moec::DeviceDesc &host,
                                          const moec::DeviceDesc *ofRouter) {
  const std::string label = labelOf(op);
  if (!ofRouter || ofRouter->kind != moec::DeviceKind::Cuda)
    return label + " would be streamed to the GPU of its layer's router, but " +
           "the router is on " + (ofRouter ? ofRouter->name : host.name);
  const moec::DeviceDesc &gpu = *ofRouter;
  if (gpu.sharesMemory)
    return gpu.name + " shares the memory of " + host.name +
           ", where nothing has to be copied for it";
  ExpertSliceAttr slice = op.getSliceAttr();
  if (slice && !slice.getMap().empty())
    return label + " are the experts that a router profile leaves to " +
           host.name + ", which are not streamed";
  for (Value weight : {op.getGate(), op.getUp(), op.getDown()})
    if (WeightOp stored = weights.of(weight);
        !isReadByBoth(stored, weights, gpu, phase.getMaxTokens()))
      return gpu.name + " cannot read " + stored.getSymName().str() +
             " in every layout in which " + host.name + " may have it";
  if (opSeconds(op, moec::Situation{1, 0}, gpu, mayPack) >= kNeverSeconds)
    return gpu.name + " has no kernel for " + label;
  candidates.push_back({op, &host, &gpu});
  return "";
}

static int64_t partsOf(ExpertsOp op) {
  int64_t experts = shapeOf(op.getGate())[0];
  return moek::cuda::streamedParts(experts * mostMatrixBytes(op.getGate()),
                                   experts);
}

/// Returns the seconds of a layer whose parts arrive over the link, each to be
/// multiplied on the GPU while the next one arrives.
static double streamedSeconds(double link, double gpu, int64_t parts) {
  std::vector<moec::Task> tasks;
  for (int64_t i = 0; i < parts; ++i) {
    tasks.push_back({0, link / double(parts)});
    tasks.push_back({1, gpu / double(parts), {int(2 * i)}});
  }
  return moec::simulate(tasks, {{}, {}}).end;
}

int64_t ExpertStreaming::slotBytes(ExpertsOp op) {
  int64_t experts = shapeOf(op.getGate())[0], most = 0;
  auto add = [&](int64_t gate, int64_t up) {
    int64_t parts = moek::cuda::streamedParts((gate + up) * experts, experts);
    int64_t each = int64_t(llvm::divideCeil(experts, parts));
    most = std::max(most, moek::cuda::slotBytes(gate, each) +
                              moek::cuda::slotBytes(up, each));
  };
  add(mostMatrixBytes(op.getGate()), mostMatrixBytes(op.getUp()));
  add(mostMatrixBytes(op.getDown()), 0);
  return 2 * most;
}

int64_t ExpertStreaming::slotBytes() const {
  int64_t most = 0;
  for (const Candidate &candidate : candidates)
    most = std::max(most, slotBytes(candidate.op));
  return most;
}

int64_t ExpertStreaming::keptBytes(ExpertsOp op) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (isWeight(operand) && operand != op.getGate() && operand != op.getUp() &&
        operand != op.getDown())
      bytes += getTensorBytes(cast<RankedTensorType>(operand.getType()));
  return bytes;
}

int64_t ExpertStreaming::mostBytes(func::FuncOp prefill,
                                   const moec::DeviceDesc &host,
                                   const moec::DeviceDesc &gpu) {
  ExpertStreaming all(
      prefill, [&](Operation *op) { return isa<ExpertsOp>(op) ? &host : &gpu; },
      /*mayPack=*/true);
  int64_t bytes = all.slotBytes();
  for (Candidate candidate : all.candidates)
    bytes += keptBytes(candidate.op);
  return bytes;
}

bool ExpertStreaming::pays(int64_t rows) const {
  Seconds seconds = secondsOf(rows);
  return seconds.streamed <= seconds.host;
}

int64_t ExpertStreaming::crossover() const {
  int64_t rows = 1;
  while (rows <= kMostRows && !pays(rows))
    rows *= 2;
  if (rows > kMostRows)
    return 0;
  int64_t low = rows / 2, high = rows; // `low` does not pay, `high` does.
  while (low + 1 < high) {
    int64_t middle = (low + high) / 2;
    (pays(middle) ? high : low) = middle;
  }
  return high;
}

ExpertStreaming::Seconds ExpertStreaming::secondsOf(int64_t rows) const {
  Seconds all;
  TypicalStep step{rows, typicalStep(phase).cached};
  std::map<const moec::DeviceDesc *, moec::Situation> situations;
  auto situation = [&](const moec::DeviceDesc &device) {
    auto [it, isNew] = situations.try_emplace(&device);
    if (isNew)
      it->second = situationOf(prefill, step, device);
    return it->second;
  };
  for (Candidate c : candidates) {
    auto costed = cast<CostOpInterface>(c.op.getOperation());
    double there = 0;
    for (Value value : {c.op.getX(), c.op.getIds(), c.op.getWeights()})
      there += double(PlacementProblem::bytesOf(value, rows));
    all.host +=
        opSeconds(c.op, situation(*c.host), *c.host, mayPack) +
        moec::transferSeconds(there, *c.gpu) +
        moec::transferSeconds(
            double(PlacementProblem::bytesOf(c.op.getResult(), rows)), *c.gpu);
    double link = moec::transferSeconds(
        costed.getCost(rows, step.cached).weightBytes, *c.gpu);
    double gpu = opSeconds(c.op, situation(*c.gpu), *c.gpu, mayPack);
    all.link += link;
    all.gpu += gpu;
    all.streamed += streamedSeconds(link, gpu, partsOf(c.op));
  }
  return all;
}
