//===- ReduceExperts.h - Fewer experts in some layers -----------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H
#define MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H

#include "mlir/Pass/Pass.h"

namespace mlir::moe {

/// Creates moe-reduce-experts with one expert count per layer. A layer whose
/// count is 0 or missing keeps its router as it is. `experts_used` of
/// `moe.model` becomes the largest count, and a note lists the range.
std::unique_ptr<Pass> createReduceLayerExpertsPass(ArrayRef<int64_t> layers);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H
