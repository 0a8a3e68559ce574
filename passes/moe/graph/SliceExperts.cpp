#include "passes/moe/graph/SliceExperts.h"

#include "dialects/moe/ExpertFrequencies.h"
#include "mlir/IR/Builders.h"
#include "passes/moe/Support.h"

#include <numeric>

using namespace mlir;
using namespace mlir::moe;

int64_t moe::expertCount(ExpertsOp op) {
  return cast<RankedTensorType>(op.getGate().getType()).getDimSize(0);
}

SmallVector<int64_t> moe::hottestExperts(ExpertsOp op, int64_t count) {
  SmallVector<int64_t> experts(static_cast<size_t>(expertCount(op)));
  std::iota(experts.begin(), experts.end(), 0);
  if (auto known = op->getAttrOfType<DenseF32ArrayAttr>(kFrequenciesAttr))
    llvm::stable_sort(experts, [&](int64_t a, int64_t b) {
      return known[size_t(a)] > known[size_t(b)];
    });
  experts.truncate(size_t(count));
  llvm::sort(experts);
  return experts;
}

double moe::shareOf(ExpertsOp op, ArrayRef<int64_t> experts) {
  auto known = op->getAttrOfType<DenseF32ArrayAttr>(kFrequenciesAttr);
  if (!known)
    return double(experts.size()) / double(expertCount(op));
  ArrayRef<float> frequencies = known.asArrayRef();
  double some = 0;
  for (int64_t expert : experts)
    some += double(frequencies[size_t(expert)]);
  double all = std::accumulate(frequencies.begin(), frequencies.end(), 0.0);
  return std::min(some / all, 1.0);
}

bool moe::areLeadingExperts(ArrayRef<int64_t> ascending) {
  return ascending.back() + 1 == int64_t(ascending.size());
}

namespace {

/// Returns a view of matrices (for biases: rows) `begin` ... `begin + count` -
/// 1 of a weight.
Value sliceOf(OpBuilder &builder, Value weight, int64_t begin, int64_t count) {
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = count;
  auto sliced = RankedTensorType::get(shape, type.getElementType());
  // The file has one tensor per expert.
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

/// Returns a stack of the `chosen` experts' matrices or bias rows.
Value chosenOf(OpBuilder &builder, Value weight, ArrayRef<int64_t> chosen) {
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = int64_t(chosen.size());
  SmallVector<Value> parts;
  for (size_t begin = 0; begin < chosen.size();) {
    size_t end = begin + 1;
    while (end < chosen.size() && chosen[end] == chosen[end - 1] + 1)
      ++end;
    // The file has one tensor per expert.
    if (auto stack = weight.getDefiningOp<StackOp>())
      llvm::append_range(
          parts, stack.getWeights().slice(size_t(chosen[begin]), end - begin));
    else
      parts.push_back(
          sliceOf(builder, weight, chosen[begin], int64_t(end - begin)));
    begin = end;
  }
  return builder.create<StackOp>(
      weight.getLoc(), RankedTensorType::get(shape, type.getElementType()),
      parts);
}

void setLabel(Operation *op, LabelAttr whole, const Twine &suffix) {
  if (whole)
    op->setAttr(kLabelAttr, whole.of(suffix.str()));
}

/// Returns a copy of `op` whose weights are replaced by `viewOf` them.
ExpertsOp part(OpBuilder &builder, ExpertsOp op, ExpertSliceAttr slice,
               const Twine &suffix, function_ref<Value(Value)> viewOf) {
  auto part = cast<ExpertsOp>(builder.clone(*op));
  for (MutableOperandRange weights :
       {MutableOperandRange(part.getGateMutable()),
        MutableOperandRange(part.getUpMutable()),
        MutableOperandRange(part.getDownMutable()), part.getGateBiasMutable(),
        part.getUpBiasMutable(), part.getDownBiasMutable(),
        part.getGateScaleMutable(), part.getUpScaleMutable()})
    for (OpOperand &weight : weights) {
      builder.setInsertionPoint(part);
      weight.set(viewOf(weight.get()));
    }
  part.setSliceAttr(slice);
  part->removeAttr(kFrequenciesAttr);
  setLabel(part, op->getAttrOfType<LabelAttr>(kLabelAttr), suffix);
  builder.setInsertionPointAfter(part);
  return part;
}

/// Returns a copy of `op` for experts [begin, begin + count).
ExpertsOp range(OpBuilder &builder, ExpertsOp op, int64_t begin, int64_t count,
                double share) {
  return part(builder, op,
              ExpertSliceAttr::get(op->getContext(), expertCount(op), begin,
                                   count, share, {}),
              Twine(begin) + "-" + Twine(begin + count - 1), [&](Value weight) {
                return sliceOf(builder, weight, begin, count);
              });
}

} // namespace

int64_t moe::usedExperts(ExpertsOp op) {
  return cast<RankedTensorType>(op.getIds().getType()).getDimSize(1);
}

SmallVector<ExpertLayer> moe::expertLayers(func::FuncOp function) {
  llvm::MapVector<Value, ExpertLayer> layers;
  function.walk([&](ExpertsOp op) { layers[op.getIds()].push_back(op); });
  return llvm::map_to_vector(layers, [](auto &entry) { return entry.second; });
}

SlicedExperts moe::sliceExperts(ExpertsOp op, ArrayRef<int64_t> chosen) {
  OpBuilder builder(op);
  int64_t experts = expertCount(op), count = int64_t(chosen.size());
  double share = shareOf(op, chosen);
  SlicedExperts sliced;
  if (areLeadingExperts(chosen)) {
    sliced.first = range(builder, op, 0, count, share);
    sliced.rest = range(builder, op, count, experts - count, 1 - share);
  } else {
    SmallVector<Real> here(static_cast<size_t>(experts), Real(-1)), others;
    for (auto [number, expert] : llvm::enumerate(chosen))
      here[size_t(expert)] = Real(double(number));
    for (auto [expert, number] : llvm::enumerate(here))
      others.push_back(Real(double(number) < 0 ? double(expert) : -1));
    sliced.first = part(
        builder, op,
        ExpertSliceAttr::get(op->getContext(), experts, 0, count, share, here),
        "chosen-" + Twine(count),
        [&](Value weight) { return chosenOf(builder, weight, chosen); });
    sliced.rest = part(builder, op,
                       ExpertSliceAttr::get(op->getContext(), experts, 0,
                                            experts, 1 - share, others),
                       "others-" + Twine(experts - count),
                       [](Value weight) { return weight; });
  }
  sliced.sum = builder.create<AddOp>(op.getLoc(), sliced.first.getResult(),
                                     sliced.rest.getResult());
  setLabel(sliced.sum, op->getAttrOfType<LabelAttr>(kLabelAttr), "sum");
  op.getResult().replaceAllUsesWith(sliced.sum.getResult());
  op.erase();
  return sliced;
}
