//===- OpSeconds.h - Predicts an op's time without kernels ------*- C++ -*-===//
//
// Passes compare devices and forms before kernels are selected. They predict an
// op's time with the kernels that selection would choose for each instruction,
// by the rates in compiler/Machine/CostModel.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_KERNELS_OPSECONDS_H
#define MOE_PASSES_MOE_KERNELS_OPSECONDS_H

#include "compiler/Machine/CostModel/CostModel.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/KernelSelection.h"

namespace mlir::moe {

/// Returns the situation of an op in `function` in a step of `step.tokens`
/// tokens after `step.cached` cached positions.
moec::Situation situationOf(func::FuncOp function, TypicalStep step,
                            const moec::DeviceDesc &device);

/// Seconds for an op that a device has no kernels for: longer than any step, so
/// that the device is never chosen.
inline constexpr double kNeverSeconds = 1e6;

/// Returns the seconds of all instructions of `op` on `device`; for a transfer,
/// the seconds on the link of that GPU. With `mayPack`, weights may have
/// another layout than the file's. Returns kNeverSeconds if a GPU has no kernel
/// for an instruction or a weight.
double opSeconds(Operation *op, const moec::Situation &situation,
                 const moec::DeviceDesc &device, bool mayPack);

/// Returns the seconds in which the matrices of streamed experts get from
/// `host` to `gpu` in a step with this `cost`. If they are `pinned`, the GPU
/// reads those that it needs; otherwise all go through a ring.
double streamSeconds(CostOpInterface op, const Cost &cost, bool pinned,
                     const moec::DeviceDesc &host, const moec::DeviceDesc &gpu);

/// Whether resident weights may have another layout than the file's: with
/// weights=reference (no `mayPack`) those in the host's memory keep it, because
/// kernels read the mapped file; a GPU with its own memory has a copy anyway.
inline bool mayLayOut(const moec::DeviceDesc &device, bool mayPack) {
  return mayPack ||
         (device.kind == moec::DeviceKind::Cuda && !device.sharesMemory);
}

/// Returns the time that a device spends between the work of instructions:
/// starting each instruction, and waiting at `barriers` barriers.
double overheadSeconds(int64_t instructions, int64_t barriers,
                       const moec::DeviceDesc &device);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_KERNELS_OPSECONDS_H
