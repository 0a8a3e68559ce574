//===- OpSeconds.h - What an op takes, before it has kernels ----*- C++ -*-===//
//
// Passes compare devices and forms before kernels are selected. What they ask
// is what selection would take: the kernels of each instruction that
// compiler/Machine/CostModel finds the fastest.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_KERNELS_OPSECONDS_H
#define MOE_PASSES_MOE_KERNELS_OPSECONDS_H

#include "compiler/Machine/CostModel/CostModel.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"

namespace mlir::moe {

/// `tokens` of a phase after `cached` positions, of an op in `function`.
moec::Situation situationOf(func::FuncOp function, TypicalStep step,
                            const moec::DeviceDesc &device);

/// Of what a device has no kernels for and is not to be given: longer than any
/// step takes.
inline constexpr double kNeverSeconds = 1e6;

/// Seconds of all instructions of `op` on `device`; of a transfer, on the link
/// of that GPU. `mayPack`: weights may have another layout than the file's.
/// kNeverSeconds where a GPU has no kernel for an instruction or a weight.
double opSeconds(Operation *op, const moec::Situation &situation,
                 const moec::DeviceDesc &device, bool mayPack);

/// What goes beside the work of instructions: starting each, and meetings of
/// the device's workers between them.
double overheadSeconds(int64_t instructions, int64_t meetings,
                       const moec::DeviceDesc &device);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_OPSECONDS_H
