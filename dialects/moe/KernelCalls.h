//===- KernelCalls.h - The kernels an op was given --------------*- C++ -*-===//
//
// moe-select-kernels records #moe.kernels on every op that has a moe.device:
// one call per instruction of the op (LowerableOpInterface::getInstructions),
// and one for each Quantize that the chosen gemms ask for. The verifier of ops
// and lower-to-plan read it back with selectedInstructions().
//
// Two instructions are shared: each op that needs one lists it, and
// lower-to-plan emits it where it is needed first.
//   Quantize of an operand of the op, once per value of the function;
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
struct SelectedInstruction {
  Instruction instruction;
  const moek::KernelInfo *driver;
  /// Parallel to instruction.gemmWeights().
  SmallVector<const moek::GemmInfo *, 2> gemms;

  /// The encoding of activations that the gemms read; all gemms of an
  /// instruction agree.
  moek::Encoding activation() const {
    return gemms.empty() ? moek::Encoding::F32 : gemms.front()->activation;
  }
  /// Returns the layout in which the instruction reads `weight`.
  moek::Layout layoutOf(Value weight) const;
};

/// Whether gemms of one instruction read the same buffer.
bool shareActivation(const moek::GemmInfo &a, const moek::GemmInfo &b);

/// Returns `instructions` with a Quantize before the first that reads an
/// activation as A8 or A8K. Each reads it in the encoding of its own gemms:
/// gate may read A8 where up reads F32.
std::vector<Instruction> withQuantize(const Instructions &instructions,
                                      ArrayRef<const moek::GemmInfo *> gemms);

/// Returns `instructions`, all of `op`, with the kernels that #moe.kernels
/// names. Emits an error on `op` if it has none or they do not fit.
FailureOr<std::vector<SelectedInstruction>>
selectedInstructions(Operation *op, const Instructions &instructions);

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_KERNELCALLS_H
