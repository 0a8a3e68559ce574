//===- KernelSelection.h - Kernels that a device can run --------*- C++ -*-===//
//
// The choices of moe-select-kernels, also used by passes that need to know in
// advance what it would choose. Its decisions are stored as #moe.kernels
// (dialects/moe/KernelCalls.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H
#define MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/KernelCalls.h"

namespace mlir::moe {

/// Returns the encoding of 8-bit activations on a device whose best instruction
/// set is `isa`, in a phase of at most `maxTokens` tokens: the coarsest
/// encoding that one of its gemms needs, since the other gemms read it too.
moek::Encoding encodingOn(moek::Isa isa, int64_t maxTokens);

/// Returns the kernel of `op` for a device whose best instruction set is `isa`,
/// or null.
const moek::KernelInfo *chooseKernel(moek::OpCode op, moek::Isa isa);

/// Returns whether one kernel of the device computes gate, up and activation of
/// `op`, a moe.ffn or moe.experts. moe-fuse asks for the op's own device.
bool canFuseGateUp(Operation *op, const moec::DeviceDesc &device);

/// Returns the gemm for weights of `format` in `layout` whose token range
/// contains `maxTokens`, the most tokens of a step. It is the one for the best
/// instruction set, unless another one was measured to be clearly faster for
/// that many tokens. Returns null if there is none.
const moek::GemmInfo *chooseGemm(moek::Format format, moek::Layout layout,
                                 const moec::DeviceDesc &device,
                                 int64_t maxTokens);

/// Returns the other gemms that the device could use, with the reason why it
/// does not use each.
SmallVector<std::pair<const moek::GemmInfo *, std::string>>
rejectedGemms(const moek::GemmInfo &chosen, const moec::DeviceDesc &device,
              int64_t maxTokens);

/// Returns whether kernels of `isa` encode the activations of their gemms in
/// instructions that have no Instruction::activation(). Those of GPUs do not:
/// they read floats, and weights in the layout of the file.
bool encodesForGemms(moek::Isa isa);

/// Returns whether kernels of gate_up and experts_gate_up for `isa` require
/// both weights to have the same format.
bool gateUpNeedsOneFormat(moek::Isa isa);

/// Returns whether `a` was measured to take at least 10 % longer than `b` per
/// byte of weights with `rows` tokens; smaller differences are within the error
/// of measurement. False unless both were measured on `device`.
bool clearlySlower(const moek::GemmInfo &a, const moek::GemmInfo &b,
                   int64_t rows, const moec::DeviceDesc &device);

/// Returns whether a device whose best instruction set is `isa` has gemms for a
/// layout other than the model file's: for any format, or for `format` with
/// rows of `cols` elements.
bool readsPackedRows(moek::Isa isa);
bool readsPackedRows(moek::Isa isa, moek::Format format, int64_t cols);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_KERNELSELECTION_H
