#include "passes/moe/SliceExperts.h"

#include "mlir/IR/Builders.h"
#include "passes/moe/Support.h"

using namespace mlir;
using namespace mlir::moe;

int64_t moe::expertCount(ExpertsOp op) {
  return cast<RankedTensorType>(op.getGate().getType()).getDimSize(0);
}

namespace {

/// Matrices, or of biases rows, `begin` ... `begin + count` - 1 of a weight.
Value sliceOf(OpBuilder &builder, Value weight, int64_t begin, int64_t count) {
  if (!weight)
    return {};
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = count;
  auto sliced = RankedTensorType::get(shape, type.getElementType());
  // A tensor per expert.
  if (auto stack = weight.getDefiningOp<StackOp>())
    return builder.create<StackOp>(
        weight.getLoc(), sliced,
        stack.getWeights().slice(size_t(begin), size_t(count)));
  if (type.getRank() == 3)
    return builder.create<SliceExpertsOp>(weight.getLoc(), sliced, weight,
                                          uint64_t(begin));
  return builder.create<SliceOp>(weight.getLoc(), sliced, weight,
                                 uint64_t(begin));
}

void setLabel(Operation *op, LabelAttr whole, const Twine &suffix) {
  if (whole)
    op->setAttr(kLabelAttr, whole.of(suffix.str()));
}

ExpertsOp slice(OpBuilder &builder, ExpertsOp op, int64_t begin, int64_t count,
                double share) {
  auto part = cast<ExpertsOp>(builder.clone(*op));
  for (MutableOperandRange weights :
       {MutableOperandRange(part.getGateMutable()),
        MutableOperandRange(part.getUpMutable()),
        MutableOperandRange(part.getDownMutable()), part.getGateBiasMutable(),
        part.getUpBiasMutable(), part.getDownBiasMutable()})
    for (OpOperand &weight : weights) {
      builder.setInsertionPoint(part);
      weight.set(sliceOf(builder, weight.get(), begin, count));
    }
  part.setSliceAttr(ExpertSliceAttr::get(op->getContext(), expertCount(op),
                                         begin, count, share, {}));
  setLabel(part, op->getAttrOfType<LabelAttr>(kLabelAttr),
           Twine(begin) + "-" + Twine(begin + count - 1));
  builder.setInsertionPointAfter(part);
  return part;
}

} // namespace

SlicedExperts moe::sliceExperts(ExpertsOp op, int64_t count, double share) {
  OpBuilder builder(op);
  ExpertsOp first = slice(builder, op, 0, count, share);
  ExpertsOp rest =
      slice(builder, op, count, expertCount(op) - count, 1 - share);
  auto sum =
      builder.create<AddOp>(op.getLoc(), first.getResult(), rest.getResult());
  setLabel(sum, op->getAttrOfType<LabelAttr>(kLabelAttr), "sum");
  op.getResult().replaceAllUsesWith(sum.getResult());
  op.erase();
  return {first, rest, sum};
}
