#include "compiler/Machine/Targets/TargetAttr.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"

namespace mlir::moe {
#define GEN_PASS_DEF_FUSEPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

namespace {

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

bool isBefore(Value value, Operation *op) {
  Operation *producer = value.getDefiningOp();
  return !producer || (producer->getBlock() == op->getBlock() &&
                       producer->isBeforeInBlock(op));
}

/// An op that can add `addend` to what it contributes to `sum`: the producer
/// of `sum`, or, where that adds something already, of one of its summands. All
/// on `device`, and used for nothing but the sum. Null if there is none.
ResidualOpInterface findTaker(Value sum, Value addend, Attribute device) {
  Operation *op = sum.getDefiningOp();
  if (!op || !sum.hasOneUse() || op->getAttr(kDeviceAttr) != device)
    return nullptr;
  if (auto add = dyn_cast<AddOp>(op)) {
    for (Value summand : {add.getRhs(), add.getLhs()})
      if (ResidualOpInterface taker = findTaker(summand, addend, device))
        return taker;
    return nullptr;
  }
  auto taker = dyn_cast<ResidualOpInterface>(op);
  if (!taker)
    return nullptr;
  if (Value summand = taker.getResidual())
    return findTaker(summand, addend, device);
  return isBefore(addend, op) ? taker : nullptr;
}

struct AddIntoProducer : OpRewritePattern<AddOp> {
  AddIntoProducer(MLIRContext *context, Pass::Statistic &count)
      : OpRewritePattern(context), count(count) {}

  LogicalResult matchAndRewrite(AddOp add,
                                PatternRewriter &rewriter) const override {
    return success(succeeded(join(add, add.getLhs(), add.getRhs(), rewriter)) ||
                   succeeded(join(add, add.getRhs(), add.getLhs(), rewriter)));
  }

private:
  LogicalResult join(AddOp add, Value sum, Value addend,
                     PatternRewriter &rewriter) const {
    Attribute device = add->getAttr(kDeviceAttr);
    Operation *producer = addend.getDefiningOp();
    if (producer && producer->getAttr(kDeviceAttr) != device)
      return failure();
    ResidualOpInterface taker = findTaker(sum, addend, device);
    if (!taker)
      return failure();
    rewriter.modifyOpInPlace(taker, [&] {
      taker.getResidualMutable().assign(addend);
      appendReason(
          taker, "Adds " +
                     (producer ? labelOf(producer) : std::string("the input")) +
                     " as it writes its result.");
    });
    rewriter.replaceOp(add, sum);
    ++count;
    return success();
  }

  Pass::Statistic &count;
};

//===----------------------------------------------------------------------===//
// Gate and up
//===----------------------------------------------------------------------===//

/// What the fused kernels need: one shape, one encoding of the activation, and
/// some of them one format.
bool gateFitsUp(Value gate, Value up, const moec::DeviceDesc &device,
                PhaseAttr phase) {
  auto gateType = cast<RankedTensorType>(gate.getType());
  auto upType = cast<RankedTensorType>(up.getType());
  if (gateType.getShape() != upType.getShape())
    return false;
  if (gateUpNeedsOneFormat(device.isa) &&
      gateType.getElementType() != upType.getElementType())
    return false;
  auto gemmFor = [&](RankedTensorType type) -> const moek::GemmInfo * {
    auto format = getFormat(type.getElementType());
    // Other layouts are only chosen if their gemms read the same encoding, or
    // for both, which have one format.
    return format ? chooseGemm(*format, moek::Layout::Gguf, device,
                               phase.getMaxTokens())
                  : nullptr;
  };
  const moek::GemmInfo *gateGemm = gemmFor(gateType);
  const moek::GemmInfo *upGemm = gemmFor(upType);
  return gateGemm && upGemm && shareActivation(*gateGemm, *upGemm);
}

template <typename Op>
bool canFuse(Op op, OpCode fused, const moec::DeviceDesc &device) {
  PhaseAttr phase = phaseOf(op);
  // A limit needs both factors.
  return phase && op.getLimit().isZero() && chooseKernel(fused, device.isa) &&
         gateFitsUp(op.getGate(), op.getUp(), device, phase);
}

struct Fuse : moe::impl::FusePassBase<Fuse> {
  using FusePassBase::FusePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();

    module.walk([&](Operation *op) {
      auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
      const moec::DeviceDesc *device =
          name ? target->find(std::string_view(name.getValue()))
               : &target->host();
      if (!device || !canFuseGateUp(op, *device))
        return;
      if (auto ffn = dyn_cast<FfnOp>(op))
        ffn.setFused(true);
      else
        cast<ExpertsOp>(op).setFused(true);
      ++numGateUp;
    });

    RewritePatternSet patterns(&getContext());
    patterns.add<AddIntoProducer>(&getContext(), numResiduals);
    GreedyRewriteConfig config;
    // Inner sums first: the summands of an outer one then form a chain of
    // producers, and the end of the chain takes the other summand.
    config.useTopDownTraversal = true;
    config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
    if (failed(
            applyPatternsAndFoldGreedily(module, std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace

bool moe::canFuseGateUp(Operation *op, const moec::DeviceDesc &device) {
  if (auto ffn = dyn_cast<FfnOp>(op))
    return canFuse(ffn, OpCode::GateUp, device);
  auto experts = dyn_cast<ExpertsOp>(op);
  return experts && !experts.hasScales() &&
         canFuse(experts, OpCode::ExpertsGateUp, device);
}
