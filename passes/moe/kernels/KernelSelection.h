//===- KernelSelection.h - Which kernels a device runs ----------*- C++ -*-===//
//
// The choices of moe-select-kernels, for other passes that ask what it would
// take; what it took is #moe.kernels (dialects/moe/KernelCalls.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H
#define MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/KernelCalls.h"

namespace mlir::moe {

/// Whether a device whose best instruction set is `device` runs a kernel of
/// `kernel`: a CPU runs every set below its best, a CUDA device only its own.
bool runsOn(moek::Isa kernel, moek::Isa device);

/// How a device whose best instruction set is `isa` stores 8-bit activations in
/// a phase of at most `maxTokens` tokens: in the coarsest encoding that one of
/// its gemms there wants, as the others read it too.
moek::Encoding encodingOn(moek::Isa isa, int64_t maxTokens);

/// The driver of `op` for a device whose best instruction set is `isa`, or
/// null.
const moek::KernelInfo *chooseKernel(moek::OpCode op, moek::Isa isa);

/// Whether one kernel of the device does gate, up and activation of `op`, a
/// moe.ffn or moe.experts. moe-fuse asks for the device that the op has.
bool canFuseGateUp(Operation *op, const moec::DeviceDesc &device);

/// The gemm for a weight of `format` in `layout` whose token range holds
/// maxTokens, the most that a step has: of the best instruction set, unless
/// another is known to be clearly faster with them. Null if there is none.
const moek::GemmInfo *chooseGemm(moek::Format format, moek::Layout layout,
                                 const moec::DeviceDesc &device,
                                 int64_t maxTokens);

/// The other gemms that the device could take for it, and why it does not.
SmallVector<std::pair<const moek::GemmInfo *, std::string>>
rejectedGemms(const moek::GemmInfo &chosen, const moec::DeviceDesc &device,
              int64_t maxTokens);

/// Whether drivers of `isa` that encode activations for their gemms
/// (PlanStep::encodes) do so: a GPU's read floats, and weights as files have
/// them.
bool encodesForGemms(moek::Isa isa);

/// Whether drivers of gate_up and experts_gate_up for `isa` need both weights
/// in one format.
bool gateUpNeedsOneFormat(moek::Isa isa);

/// Whether `a` is known to take more than a tenth longer than `b` over a
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

#endif // MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H
