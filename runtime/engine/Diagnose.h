//===- Diagnose.h - Where values stopped being finite -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_DIAGNOSE_H
#define MOE_RUNTIME_ENGINE_DIAGNOSE_H

#include "runtime/device/Devices.h"

namespace moert {

/// Explains a step whose output has a NaN or an infinity: runs the step again,
/// one instruction at a time, up to the first instruction that writes such a
/// value, and looks for the cause in the weights that it reads. Takes as long
/// as a step, plus the time to read those weights with one thread.
///
/// `phase` belongs to `devices`, which were created from `plan` and `files`.
/// `input` has the rows of the step; the caches must still hold the tokens
/// before `step.position`. Returns InvalidFile with the name of the op and, if
/// a weight caused it, the tensor and row; or Cancelled, or the error of a
/// device.
Status diagnose(const Plan &plan, const WeightFiles &files, Devices &devices,
                const RunnablePhase &phase, std::span<const std::byte> input,
                const moek::Step &step, const std::atomic<bool> *cancel);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_DIAGNOSE_H
