//===- PlanAhead.h - What prefetches into a GPU's L2 save -------*- C++ -*-===//

#ifndef MOE_PASSES_PLAN_PLANAHEAD_H
#define MOE_PASSES_PLAN_PLANAHEAD_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/plan/Plan.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::plan {

/// Returns the seconds that instructions of `phase` save because launches
/// before theirs bring some of their weights into L2
/// (kernels/cuda/WeightsAhead.h). Launches are those of plan-launches. Nothing
/// is saved on a GPU whose L2 the target does not state. That bringing weights
/// takes no time itself is an assumption: launches do it while memory is idle.
llvm::DenseMap<Operation *, double> savedAhead(PhaseOp phase,
                                               const moec::TargetDesc &target);

} // namespace mlir::plan

#endif // MOE_PASSES_PLAN_PLANAHEAD_H
