//===- KernelCalls.h - The kernels an op was given --------------*- C++ -*-===//
//
// moe-select-kernels records #moe.kernels on every op that has a moe.device:
// one call per instruction of the op (LowerableOpInterface::getPlanSteps), and
// one for each Quantize that the chosen gemms ask for. The verifier of the
// attribute and lower-to-plan read it back with selectedSteps().
//
// Two instructions are shared: each op that needs one lists it, and
// lower-to-plan emits it where it is needed first.
//   Quantize of ActivationSource::Input, once per value of the function;
//   RopeTable, once per distinct #moe.rope and device of the function.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_KERNELCALLS_H
#define MOE_DIALECTS_MOE_KERNELCALLS_H

#include "dialects/moe/Moe.h"
#include "kernels/Activation.h"
#include "kernels/Registry.h"

namespace mlir::moe {

/// An instruction with its kernels.
struct SelectedStep {
  PlanStep step;
  const moek::KernelInfo *driver;
  /// Parallel to step.gemmWeights.
  SmallVector<const moek::GemmInfo *, 2> gemms;

  /// What the gemms read; all gemms of an instruction agree.
  moek::Encoding activation() const {
    return gemms.empty() ? moek::Encoding::F32 : gemms.front()->activation;
  }
  StepWork work = {};   ///< Of the step that addWork() was asked about.
  WorkTerms terms = {}; ///< Of any step; addWork() fills it in too.
  /// In which layout the instruction reads `weight`.
  moek::Layout layoutOf(Value weight) const;
};

/// Whether gemms of one instruction read the same buffer.
bool shareActivation(const moek::GemmInfo &a, const moek::GemmInfo &b);

/// `steps` with Quantize before the first that reads an activation as A8 or A8K
/// (its `step.activation` says which one). Instructions of one op read the
/// Input or Inner activation in the encoding of their own gemms: gate may read
/// A8 where up reads F32.
SmallVector<PlanStep> withQuantize(ArrayRef<PlanStep> steps,
                                   ArrayRef<const moek::GemmInfo *> gemms);

/// The instructions of `op` with the kernels that its #moe.kernels names. Emits
/// an error on `op` if it has none or they do not fit its instructions.
FailureOr<SmallVector<SelectedStep>> selectedSteps(Operation *op);

/// Says what each of `steps`, all of `op`, does in a step of `tokens` after
/// `cached` others. The op knows nothing of what withQuantize() added.
void addWork(CostOpInterface op, int64_t tokens, int64_t cached,
             MutableArrayRef<SelectedStep> steps);

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_KERNELCALLS_H
