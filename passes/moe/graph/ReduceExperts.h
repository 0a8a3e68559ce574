//===- ReduceExperts.h - Fewer experts in some layers -----------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H
#define MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H

#include "mlir/Pass/Pass.h"

namespace mlir::moe {

/// moe-reduce-experts with a number for each layer: 0, and layers beyond, leave
/// a router as it is. `experts_used` of `moe.model` is the most of them, and a
/// note says what layers use.
std::unique_ptr<Pass> createReduceLayerExpertsPass(ArrayRef<int64_t> layers);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_REDUCEEXPERTS_H
