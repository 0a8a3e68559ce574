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
// Labels are those of the experts with ".0-15", ".16-63" and ".sum".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_SLICEEXPERTS_H
#define MOE_PASSES_MOE_SLICEEXPERTS_H

#include "dialects/moe/Moe.h"

namespace mlir::moe {

/// Experts of the layer that `op` is of.
int64_t expertCount(ExpertsOp op);

struct SlicedExperts {
  ExpertsOp first, rest;
  AddOp sum;
};

/// Replaces `op`, which has no slice and no residual yet, by ops for its
/// experts [0, count) and for the rest. 0 < count < all of them. `share` of all
/// choices are expected to be of the first ones. Attributes are those of `op`;
/// the sum has none but a label.
SlicedExperts sliceExperts(ExpertsOp op, int64_t count, double share);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_SLICEEXPERTS_H
