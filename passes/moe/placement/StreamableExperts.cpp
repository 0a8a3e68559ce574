#include "passes/moe/placement/StreamableExperts.h"

#include "kernels/cuda/Launch.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"
#include "passes/moe/kernels/OpSeconds.h"

using namespace mlir;
using namespace mlir::moe;

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

StreamableExperts::StreamableExperts(func::FuncOp prefill)
    : weights(prefill->getParentOfType<ModuleOp>()),
      rows(phaseOf(prefill).getMaxTokens()) {}

/// Returns whether the GPU can read `weight` in every layout that the CPU may
/// use, with its matrices stored contiguously.
bool StreamableExperts::isReadByBoth(WeightOp weight,
                                     const moec::DeviceDesc &gpu) const {
  Matrices m(weight.getTensorType());
  std::optional<StoredBytes> stored = weights.locate(weight);
  if (stored && stored->outerStride != m.matrixBytes())
    return false;
  auto [it, isNew] = known.try_emplace(
      {weight.getTensorType().getAsOpaquePointer(), &gpu}, true);
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number)
    if (isNew && (number == 0 || moek::hasLayout(*layout, m.format, m.cols)) &&
        !chooseGemm(m.format, *layout, gpu, rows))
      it->second = false;
  return it->second;
}

std::string
StreamableExperts::obstacle(ExpertsOp op, const moec::DeviceDesc &host,
                            const moec::DeviceDesc &ofRouter) const {
  const std::string label = labelOf(op);
  if (ofRouter.kind != moec::DeviceKind::Cuda)
    return label + " would be streamed to the GPU of its layer's router, but " +
           "the router is on " + ofRouter.name;
  if (ofRouter.sharesMemory)
    return ofRouter.name + " shares the memory of " + host.name +
           ", where nothing has to be copied for it";
  ExpertSliceAttr slice = op.getSliceAttr();
  if (slice && !slice.getMap().empty())
    return label + " are the experts that a router profile leaves to " +
           host.name + ", which are not streamed";
  for (Value weight : {op.getGate(), op.getUp(), op.getDown()})
    if (WeightOp stored = weights.of(weight); !isReadByBoth(stored, ofRouter))
      return ofRouter.name + " cannot read " + stored.getSymName().str() +
             " in every layout in which " + host.name + " may have it";
  if (opSeconds(op, moec::Situation{1, 0}, ofRouter, true) >= kNeverSeconds)
    return ofRouter.name + " has no kernel for " + label;
  return "";
}

int64_t StreamableExperts::slotBytes(ExpertsOp op) {
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

int64_t StreamableExperts::keptBytes(ExpertsOp op) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (isWeight(operand) && operand != op.getGate() && operand != op.getUp() &&
        operand != op.getDown())
      bytes += getTensorBytes(cast<RankedTensorType>(operand.getType()));
  return bytes;
}
