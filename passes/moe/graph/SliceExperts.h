//===- SliceExperts.h - A layer's experts on several devices ----*- C++ -*-===//
//
// What `moe.experts` computes is a sum over a token's experts. Here it becomes
// two ops and their sum,
//
//   %a = moe.experts %x, %ids, ... {slice = <begin = 0, count = n>}    experts
//   [0, n) %b = moe.experts %x, %ids, ... {slice = <begin = n, count = E - n>}
//   the others %y = moe.add %a, %b
//
// whose weights are views of the tensors' outer dimension (moe.slice_experts),
// so that each device holds its own alone. Every op has all of a token's ids
// and weights; its expert_group makes lists of its own experts' slots, the
// gemms walk these lists, and its experts_combine leaves out the choices that
// are not its own (ExpertSlice, kernels/Abi.h). The sum of the two is always in
// this order, whoever is ready first.
//
// Experts that are no range, such as a layer's most used ones, are put together
// (moe.stack of views) when weights are packed, and a map says which they are.
// The others stay where they are in the whole tensors, of which nobody reads
// the chosen ones then: no byte of the host's is copied or saved.
//
// Labels are those of the experts with ".0-15", ".16-63" and ".sum"; with a map
// ".chosen-16", ".others-48".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H
#define MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H

#include "dialects/moe/Moe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Experts of the layer that `op` is of.
int64_t expertCount(ExpertsOp op);

/// How many of them a token chooses.
int64_t usedExperts(ExpertsOp op);

/// The ops that are a layer's routed experts, slices of them or one op.
using ExpertLayer = SmallVector<ExpertsOp, 1>;

/// The layers of a phase: of each, what reads one router's choice.
SmallVector<ExpertLayer> expertLayers(func::FuncOp function);

/// The first `count` experts of `op`, or with kFrequenciesAttr those that most
/// tokens choose, of equals the first. Ascending.
SmallVector<int64_t> hottestExperts(ExpertsOp op, int64_t count);

/// Part of all choices that are of these experts, by kFrequenciesAttr; without
/// it all experts are alike.
double shareOf(ExpertsOp op, ArrayRef<int64_t> experts);

/// Whether the experts are the first ones, which need no map.
bool areFirst(ArrayRef<int64_t> ascending);

struct SlicedExperts {
  ExpertsOp first, rest;
  AddOp sum;
};

/// Replaces `op`, which has no slice and no residual yet, by ops for the
/// `chosen` experts, in ascending order and neither none nor all, and for the
/// rest. Attributes are those of `op`, without kFrequenciesAttr; the sum has
/// none but a label.
SlicedExperts sliceExperts(ExpertsOp op, ArrayRef<int64_t> chosen);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_SLICEEXPERTS_H
