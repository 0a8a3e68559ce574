//===- KernelSelection.h - What moe-select-kernels leaves behind -*- C++
//-*-===//
//
// moe-select-kernels records on every op that has a moe.device
//
//   moe.kernels = ["quantize_avx512", "linear_avx512"]  one per instruction
//   moe.gemms   = ["gemm_q4_k_rows16_avx512"]           one per gemm weight
//
// where a gemm's layout is that of its weight, and lower-to-plan reads them
// back with selectedSteps(), which gives the op's instructions
// (LowerableOpInterface::getPlanSteps) with their names and the Quantize
// instructions that the chosen gemms ask for.
//
// Two instructions are shared: each op that needs one lists it, and
// lower-to-plan emits it where it is needed first.
//   Quantize of ActivationSource::Input, once per value of the function;
//   RopeTable, once per distinct #moe.rope and device of the function.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_KERNELSELECTION_H
#define MOE_PASSES_KERNELSELECTION_H

#include "compiler/Targets/Target.h"
#include "dialects/moe/Moe.h"
#include "kernels/Activation.h"
#include "kernels/Registry.h"

namespace mlir::moe {

/// An instruction with the names of its kernels.
struct SelectedStep {
  PlanStep step;
  const moek::KernelInfo *driver;
  /// Parallel to step.gemmWeights.
  SmallVector<const moek::GemmInfo *, 2> gemms;

  /// What the gemms read; all gemms of an instruction agree.
  moek::Encoding activation() const {
    return gemms.empty() ? moek::Encoding::F32 : gemms.front()->activation;
  }
  /// What the instruction does in the step that selectedSteps() was asked
  /// about.
  StepWork work = {};
  /// In which layout the instruction reads `weight`.
  moek::Layout layoutOf(Value weight) const;
};

/// The instructions of `op` with Quantize before the first that reads an
/// activation as A8 or A8K (its `step.activation` says which one). Instructions
/// of one op read the Input or Inner activation in the encoding of their own
/// gemms: gate may read A8 where up reads F32.
SmallVector<PlanStep> withQuantize(ArrayRef<PlanStep> steps,
                                   ArrayRef<const moek::GemmInfo *> gemms);

/// Reads moe.kernels and moe.gemms of an op back, with the work of a step of
/// `tokens` after `cached` others. Emits an error on `op` if they are missing,
/// name no kernel, or do not fit the op's instructions.
FailureOr<SmallVector<SelectedStep>>
selectedSteps(Operation *op, int64_t tokens = 1, int64_t cached = 0);

/// Whether a device whose best instruction set is `device` runs a kernel of
/// `kernel`: a CPU runs every set below its best, a CUDA device only its own.
bool runsOn(moek::Isa kernel, moek::Isa device);

/// How a device whose best instruction set is `isa` stores 8-bit activations in
/// a phase of at most `maxTokens` tokens: in the coarsest encoding that one of
/// its gemms there wants, as the others read it too.
moek::Encoding encodingOn(moek::Isa isa, int64_t maxTokens);

/// Whether gemms of one instruction read the same buffer.
bool shareActivation(const moek::GemmInfo &a, const moek::GemmInfo &b);

/// The driver of `op` for a device whose best instruction set is `isa`, or
/// null.
const moek::KernelInfo *chooseKernel(moek::OpCode op, moek::Isa isa);

/// The gemm for a weight of `format` in `layout` whose token range holds
/// minTokens .. maxTokens: of the best instruction set, unless another is known
/// to be clearly faster with maxTokens. Null if there is none.
const moek::GemmInfo *chooseGemm(moek::Format format, moek::Layout layout,
                                 const moec::DeviceDesc &device,
                                 int64_t minTokens, int64_t maxTokens);

/// Whether `a` is known to take more than a twentieth longer than `b` over a
/// byte of weights and `rows` rows: less is what measurements differ by. False
/// unless both were measured on `device`.
bool clearlySlower(const moek::GemmInfo &a, const moek::GemmInfo &b,
                   int64_t rows, const moec::DeviceDesc &device);

/// Whether a device whose best instruction set is `isa` has gemms for another
/// layout than the model file's: for any format, or for `format` with rows of
/// `cols` elements.
bool readsPackedRows(moek::Isa isa);
bool readsPackedRows(moek::Isa isa, moek::Format format, int64_t cols);

} // namespace mlir::moe

#endif // MOE_PASSES_KERNELSELECTION_H
