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

/// Returns the type of `count` matrices (for biases: rows) of `weight`.
RankedTensorType typeOf(WeightOp weight, size_t count) {
  RankedTensorType type = weight.getTensorType();
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = int64_t(count);
  return RankedTensorType::get(shape, type.getElementType());
}

/// Returns whether the file has one tensor per expert.
bool isStack(WeightOp weight) { return isa<StackAttr>(weight.getSource()); }

/// Returns a weight of `parts`, which are `count` matrices or rows of `weight`.
WeightOp stackOf(WeightTable &weights, const Twine &name, WeightOp weight,
                 ArrayRef<WeightOp> parts, size_t count) {
  return weights
      .add(name, StackAttr::get(weight.getContext()), parts,
           typeOf(weight, count))
      .weight;
}

/// Returns a view of matrices (for biases: rows) `begin` ... `begin + count` -
/// 1 of a weight.
WeightOp sliceOf(WeightTable &weights, WeightOp weight, int64_t begin,
                 int64_t count) {
  if (isStack(weight)) {
    SmallVector<WeightOp> parts = weights.partsOf(weight);
    ArrayRef<WeightOp> some =
        ArrayRef(parts).slice(size_t(begin), size_t(count));
    return stackOf(weights, WeightOp(some.front()).getSymName() + ".stacked",
                   weight, some, some.size());
  }
  std::string name = (weight.getSymName() + "." + Twine(begin)).str();
  if (weight.getTensorType().getRank() == 3)
    name += "-" + std::to_string(begin + count - 1);
  return weights
      .add(name, WeightSliceAttr::get(weight.getContext(), /*dim=*/0, begin),
           weight, typeOf(weight, size_t(count)))
      .weight;
}

/// Returns a stack of the `chosen` experts' matrices or bias rows.
WeightOp chosenOf(WeightTable &weights, WeightOp weight,
                  ArrayRef<int64_t> chosen) {
  if (isStack(weight)) {
    SmallVector<WeightOp> parts = weights.partsOf(weight);
    SmallVector<WeightOp> some = llvm::map_to_vector(
        chosen, [&](int64_t expert) { return parts[size_t(expert)]; });
    return stackOf(weights, some.front().getSymName() + ".stacked", weight,
                   some, chosen.size());
  }
  SmallVector<WeightOp> parts;
  for (size_t begin = 0; begin < chosen.size();) {
    size_t end = begin + 1;
    while (end < chosen.size() && chosen[end] == chosen[end - 1] + 1)
      ++end;
    parts.push_back(
        sliceOf(weights, weight, chosen[begin], int64_t(end - begin)));
    begin = end;
  }
  return stackOf(weights, weight.getSymName() + ".chosen", weight, parts,
                 chosen.size());
}

void setLabel(Operation *op, LabelAttr whole, const Twine &suffix) {
  if (whole)
    op->setAttr(kLabelAttr, whole.of(suffix.str()));
}

/// Returns a copy of `op` whose weights are replaced by `viewOf` them.
ExpertsOp part(OpBuilder &builder, ExpertsOp op, ExpertSliceAttr slice,
               const Twine &suffix, const WeightTable &weights,
               function_ref<WeightOp(WeightOp)> viewOf) {
  auto part = cast<ExpertsOp>(builder.clone(*op));
  builder.setInsertionPoint(part);
  for (MutableOperandRange range :
       {MutableOperandRange(part.getGateMutable()),
        MutableOperandRange(part.getUpMutable()),
        MutableOperandRange(part.getDownMutable()), part.getGateBiasMutable(),
        part.getUpBiasMutable(), part.getDownBiasMutable(),
        part.getGateScaleMutable(), part.getUpScaleMutable()})
    for (OpOperand &operand : range) {
      WeightOp weight = weights.of(operand.get()), view = viewOf(weight);
      if (view != weight)
        operand.set(builder.create<WeightRefOp>(operand.get().getLoc(), view));
    }
  part.setSliceAttr(slice);
  part->removeAttr(kFrequenciesAttr);
  setLabel(part, op->getAttrOfType<LabelAttr>(kLabelAttr), suffix);
  builder.setInsertionPointAfter(part);
  return part;
}

/// Returns a copy of `op` for experts [begin, begin + count).
ExpertsOp range(OpBuilder &builder, ExpertsOp op, int64_t begin, int64_t count,
                double share, WeightTable &weights) {
  return part(
      builder, op,
      ExpertSliceAttr::get(op->getContext(), expertCount(op), begin, count,
                           share, {}),
      Twine(begin) + "-" + Twine(begin + count - 1), weights,
      [&](WeightOp weight) { return sliceOf(weights, weight, begin, count); });
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

SlicedExperts moe::sliceExperts(ExpertsOp op, ArrayRef<int64_t> chosen,
                                WeightTable &weights) {
  OpBuilder builder(op);
  int64_t experts = expertCount(op), count = int64_t(chosen.size());
  double share = shareOf(op, chosen);
  SlicedExperts sliced;
  if (areLeadingExperts(chosen)) {
    sliced.first = range(builder, op, 0, count, share, weights);
    sliced.rest =
        range(builder, op, count, experts - count, 1 - share, weights);
  } else {
    SmallVector<Real> here(static_cast<size_t>(experts), Real(-1)), others;
    for (auto [number, expert] : llvm::enumerate(chosen))
      here[size_t(expert)] = Real(double(number));
    for (auto [expert, number] : llvm::enumerate(here))
      others.push_back(Real(double(number) < 0 ? double(expert) : -1));
    sliced.first = part(
        builder, op,
        ExpertSliceAttr::get(op->getContext(), experts, 0, count, share, here),
        "chosen-" + Twine(count), weights,
        [&](WeightOp weight) { return chosenOf(weights, weight, chosen); });
    sliced.rest = part(builder, op,
                       ExpertSliceAttr::get(op->getContext(), experts, 0,
                                            experts, 1 - share, others),
                       "others-" + Twine(experts - count), weights,
                       [](WeightOp weight) { return weight; });
  }
  sliced.sum = builder.create<AddOp>(op.getLoc(), sliced.first.getResult(),
                                     sliced.rest.getResult());
  setLabel(sliced.sum, op->getAttrOfType<LabelAttr>(kLabelAttr), "sum");
  op.getResult().replaceAllUsesWith(sliced.sum.getResult());
  op.erase();
  return sliced;
}
