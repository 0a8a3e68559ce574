//===- SliceExperts.h - A layer's experts on several devices ----*- C++ -*-===//
//
// `moe.experts` computes a sum over a token's experts. Slicing replaces it with
// two ops and their sum:
//
//   %a = moe.experts %x, %ids, ... {slice = <begin = 0, count = n>}
//   %b = moe.experts %x, %ids, ... {slice = <begin = n, count = E - n>}
//   %y = moe.add %a, %b
//
// The weights of the slices are views of the tensors' outer dimension
// (#moe.slice), so that each device only stores its own experts. Both
// ops receive all ids and weights of a token. Their expert_group instructions
// list the slots of their own experts, their gemms process these lists, and
// their experts_combine instructions skip the choices of other experts
// (ExpertSlice, kernels/Abi.h). The sum always has this order, whichever op
// ends first.
//
// Experts that are not a leading range, such as a layer's most used ones, are
// copied next to each other when weights are packed (#moe.stack of views), and
// a map gives their numbers. The other experts stay in the whole tensors, in
// which the chosen ones are then unused: no bytes on the host are copied or
// saved.
//
// Labels are the label of the experts plus ".0-15", ".16-63" and ".sum"; with
// a map, ".chosen-16" and ".others-48".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H
#define MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H

#include "dialects/moe/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Returns the number of experts in the weights of `op`.
int64_t expertCount(ExpertsOp op);

/// Returns the number of experts that a token selects.
int64_t usedExperts(ExpertsOp op);

/// The ops that compute one layer's routed experts: one op, or its slices.
using ExpertLayer = SmallVector<ExpertsOp, 1>;

/// Groups the expert ops of a phase by layer: ops of a group read the ids of
/// the same router.
SmallVector<ExpertLayer> expertLayers(func::FuncOp function);

/// Returns `count` experts in ascending order: those that are selected most
/// often according to kFrequenciesAttr (the lower number wins ties), or the
/// first ones without that attribute.
SmallVector<int64_t> hottestExperts(ExpertsOp op, int64_t count);

/// Returns the fraction of all router choices that fall on `experts`, from
/// kFrequenciesAttr; without it, all experts count alike.
double shareOf(ExpertsOp op, ArrayRef<int64_t> experts);

/// Returns whether the experts are 0 ... n - 1, which need no map.
bool areLeadingExperts(ArrayRef<int64_t> ascending);

struct SlicedExperts {
  ExpertsOp first, rest;
  AddOp sum;
};

/// Replaces `op`, which has no slice and no residual yet, with one op for the
/// `chosen` experts (ascending; at least one, but not all), one for the other
/// experts, and their sum. The two ops inherit the attributes of `op` except
/// kFrequenciesAttr; the sum only has a label. Adds the weights of the two to
/// `weights`, the table of the module.
SlicedExperts sliceExperts(ExpertsOp op, ArrayRef<int64_t> chosen,
                           WeightTable &weights);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H
