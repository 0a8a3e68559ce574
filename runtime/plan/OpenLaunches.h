//===- OpenLaunches.h - Instructions that are launched together -*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_OPENLAUNCHES_H
#define MOE_RUNTIME_PLAN_OPENLAUNCHES_H

#include "runtime/plan/PlanAccess.h"

namespace moert {

/// Whether a GPU does `instruction`, of a plan that is bound, in the launch of
/// a later one of its queue, the next that has any (kernels/cuda/Fuse.h). Until
/// then it has done nothing, and what it leaves is there after that one.
inline bool isLaunchedLater(const fb::Plan &plan,
                            const fb::Instruction &instruction) {
  return count(instruction.launches()) == 0 &&
         plan.devices()->Get(deviceOf(plan, instruction))->kind() ==
             fb::DeviceKind::Cuda;
}

} // namespace moert

#endif // MOE_RUNTIME_PLAN_OPENLAUNCHES_H
