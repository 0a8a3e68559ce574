//===- Diagnose.h - Where numbers stopped being finite ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_DIAGNOSE_H
#define MOE_RUNTIME_ENGINE_DIAGNOSE_H

#include "runtime/device/Devices.h"

namespace moert {

/// Explains a step whose output has a NaN or an infinity: runs it again, one
/// instruction at a time, up to the first that writes such a value, and looks
/// for the cause in the weights that this one reads. Takes as long as a step
/// and reading those weights on one thread.
///
/// `phase` is one of `devices`, which are of `plan` and `files`; `input` has
/// the step's rows, and the caches hold what was before `step.position`.
/// Returns InvalidFile with the name of the op and, if it is a weight's doing,
/// tensor and row; or Cancelled, or what failed on a device.
Status diagnose(const Plan &plan, const WeightFiles &files, Devices &devices,
                const RunnablePhase &phase, std::span<const std::byte> input,
                const moek::Step &step, const std::atomic<bool> *cancel);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_DIAGNOSE_H
