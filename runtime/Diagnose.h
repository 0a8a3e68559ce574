//===- Diagnose.h - Where numbers stopped being finite ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_DIAGNOSE_H
#define MOE_RUNTIME_DIAGNOSE_H

#include "runtime/Executor.h"
#include "runtime/Plan.h"

namespace moert {

/// Explains a step whose output has a NaN or an infinity: runs it again, one
/// instruction at a time, up to the first that writes such a value, and looks
/// for the cause in the weights that this one reads. Takes as long as a step
/// and reading those weights on one thread.
///
/// `phase` was bound from `plan` to `memory` and `files`; its input holds the
/// step's again, and the caches hold what was before `step.position`. Returns
/// InvalidFile with the name of the op and, if it is a weight's doing, tensor
/// and row; or Cancelled.
Status diagnose(const Plan &plan, const WeightFiles &files,
                const DeviceMemory &memory, Executor &executor,
                const BoundPhase &phase, const moek::Step &step,
                const std::atomic<bool> *cancel);

} // namespace moert

#endif // MOE_RUNTIME_DIAGNOSE_H
