//===- MappedPlan.h - A plan whose loaded weights stay in files -*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_MAPPEDPLAN_H
#define MOE_RUNTIME_PLAN_MAPPEDPLAN_H

#include "runtime/plan/Plan.h"

namespace moert {

/// Returns a copy of the plan, with the same rung chosen, in which the host's
/// kernels read rows of the mapped model file where the plan wants them laid
/// out while they load: memory that is too small can then be paged. Kernels are
/// those of the same instruction set for the file's layout, which are slower,
/// and logits differ by rounding. Weights that are put together of several,
/// that a GPU reads too, or whose format has no such kernel are still loaded.
///
/// Fails with InvalidFile where another kernel cannot take a kernel's place.
StatusOr<Plan> withMappedRows(const Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_MAPPEDPLAN_H
