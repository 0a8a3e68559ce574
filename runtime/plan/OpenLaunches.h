//===- OpenLaunches.h - Instructions that are launched together -*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_OPENLAUNCHES_H
#define MOE_RUNTIME_PLAN_OPENLAUNCHES_H

#include "runtime/plan/PlanAccess.h"

namespace moert {

/// Returns whether a GPU executes `instruction`, of a bound plan, as part of a
/// later launch: that of the next instruction of its queue that has any
/// (kernels/cuda/Fuse.h). Its results exist only after that launch.
inline bool isLaunchedLater(const fb::Plan &plan,
                            const fb::Instruction &instruction) {
  return count(instruction.launches()) == 0 &&
         plan.devices()->Get(deviceOf(plan, instruction))->kind() ==
             fb::DeviceKind::Cuda;
}

} // namespace moert

#endif // MOE_RUNTIME_PLAN_OPENLAUNCHES_H
