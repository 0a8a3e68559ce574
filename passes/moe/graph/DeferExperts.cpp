#include "mlir/IR/Builders.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "runtime/base/Text.h"

namespace mlir::moe {
#define GEN_PASS_DEF_DEFEREXPERTSPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Ops whose results one layer defers to the next.
using Late = SmallVector<ExpertsOp, 1>;

void setLabel(Operation *op, Operation *of, const Twine &suffix) {
  if (auto label = of->getAttrOfType<LabelAttr>(kLabelAttr))
    op->setAttr(kLabelAttr, label.of(suffix.str()));
}

/// Returns the number of experts of the whole layer, of which `op` may be a
/// slice.
int64_t allExperts(ExpertsOp op) {
  ExpertSliceAttr slice = op.getSliceAttr();
  return slice ? slice.getExperts() : expertCount(op);
}

struct DeferExperts : moe::impl::DeferExpertsPassBase<DeferExperts> {
  using DeferExpertsPassBase::DeferExpertsPassBase;

  void runOnOperation() override {
    SmallVector<SmallVector<ExpertLayer>> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (PhaseAttr phase = phaseOf(function);
          phase && isDecode(phase.getKind()))
        functions.push_back(expertLayers(function));
    // Check all functions before changing any.
    for (ArrayRef<ExpertLayer> layers : functions)
      if (failed(check(layers)))
        return signalPassFailure();
    for (ArrayRef<ExpertLayer> layers : functions)
      defer(layers);
    addNote(getOperation(),
            "generation adds the results of " +
                moert::counted(deferExperts, "expert") +
                " per token one layer later, which changes the model's output; "
                "moert perplexity --step measures by how much");
  }

private:
  LogicalResult check(ArrayRef<ExpertLayer> layers) {
    if (layers.size() < 2)
      return userError(getOperation(),
                       "experts are to be deferred to the next layer, but the "
                       "model has " +
                           moert::counted(layers.size(), "layer") +
                           " with experts",
                       "compile without --defer-experts");
    for (const ExpertLayer &layer : layers.drop_back()) {
      ExpertsOp op = layer.front();
      int64_t used = usedExperts(op);
      if (deferExperts >= 1 && deferExperts < used)
        continue;
      return userError(
          op,
          "cannot defer " + Twine(deferExperts) +
              (deferExperts == 1 ? " expert" : " experts") +
              " per token: " + labelOf(op) + " uses " + Twine(used),
          used > 1 ? "give a number from 1 to " + Twine(used - 1)
                   : Twine("every layer but the last must use at least two "
                           "experts per token"));
    }
    return success();
  }

  void defer(ArrayRef<ExpertLayer> layers) {
    Late late;
    for (auto [number, layer] : llvm::enumerate(layers)) {
      Late next;
      if (number + 1 < layers.size())
        next = split(layer);
      for (auto [i, value] : llvm::enumerate(late))
        add(value, layer, i);
      late = std::move(next);
    }
  }

  /// Limits `layer` to the choices with the largest weights. Returns ops for
  /// the remaining choices, each placed after the op that it was split from.
  Late split(ArrayRef<ExpertsOp> layer) {
    // One split per device, so that its inputs are copied there only once.
    llvm::DenseMap<Attribute, SplitChoicesOp> splits;
    Late rest;
    for (ExpertsOp op : layer) {
      SplitChoicesOp &choices = splits[op->getAttr(kDeviceAttr)];
      if (!choices)
        choices = splitChoices(op, splits.size());
      OpBuilder builder(op.getContext());
      builder.setInsertionPointAfter(op);
      auto late = cast<ExpertsOp>(builder.clone(*op));
      op.getIdsMutable().assign(choices.getFirstIds());
      op.getWeightsMutable().assign(choices.getFirstWeights());
      late.getIdsMutable().assign(choices.getLastIds());
      late.getWeightsMutable().assign(choices.getLastWeights());
      late->setAttr(kDeferredAttr, builder.getUnitAttr());
      setLabel(late, op, "late");
      appendReason(late, "Computes the experts with the smallest weights, " +
                             Twine(deferExperts) +
                             " per token, for the next layer.");
      rest.push_back(late);
      ++numDeferred;
    }
    return rest;
  }

  SplitChoicesOp splitChoices(ExpertsOp op, size_t number) {
    OpBuilder builder(op);
    int64_t first = usedExperts(op) - deferExperts;
    auto columns = [](Value rows, int64_t count) {
      auto type = cast<RankedTensorType>(rows.getType());
      return RankedTensorType::get({type.getDimSize(0), count},
                                   type.getElementType());
    };
    auto split = builder.create<SplitChoicesOp>(
        op.getLoc(), columns(op.getIds(), first),
        columns(op.getWeights(), first), columns(op.getIds(), deferExperts),
        columns(op.getWeights(), deferExperts), op.getIds(), op.getWeights(),
        uint64_t(allExperts(op)));
    if (Attribute device = op->getAttr(kDeviceAttr))
      split->setAttr(kDeviceAttr, device);
    setLabel(split, op, number > 1 ? "choices" + Twine(number) : "choices");
    appendReason(split, "Separates the experts whose results are added one "
                        "layer later: " +
                            Twine(deferExperts) + " of " +
                            Twine(usedExperts(op)) + ".");
    return split;
  }

  /// Adds the result of `late` to the experts of `layer` on the same device, or
  /// to the layer's first op if there are none.
  static void add(ExpertsOp late, ArrayRef<ExpertsOp> layer, size_t number) {
    const auto *it = llvm::find_if(layer, [&](ExpertsOp op) {
      return op->getAttr(kDeviceAttr) == late->getAttr(kDeviceAttr);
    });
    ExpertsOp op = it == layer.end() ? layer.front() : *it;
    OpBuilder builder(op.getContext());
    builder.setInsertionPointAfter(op);
    auto sum =
        builder.create<AddOp>(op.getLoc(), op.getResult(), late.getResult());
    op.getResult().replaceAllUsesExcept(sum.getResult(), sum);
    if (Attribute device = op->getAttr(kDeviceAttr))
      sum->setAttr(kDeviceAttr, device);
    setLabel(sum, op, number > 0 ? "late_sum" + Twine(number + 1) : "late_sum");
    appendReason(sum, "Adds the deferred result of " + labelOf(late) + ".");
  }
};

} // namespace
