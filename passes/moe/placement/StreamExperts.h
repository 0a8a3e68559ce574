//===- StreamExperts.h - Experts of the host that a GPU brings --*- C++ -*-===//
//
// Steps from a length on bring experts' matrices over the link and let the GPU
// multiply; ExpertStreaming.h says from which on that takes less time.
// moe-place-devices leaves room for the slots where that pays.
//
// Invariant: `@streamed_prefill` takes the steps of `@prefill` from there on,
// if any is shorter, else `@prefill` itself; in it experts of the host are on
// the GPU of their layer's router and have kStreamedAttr, if that GPU reads
// their weights as the CPU has them and has room for the slots that they come
// to (kernels/cuda/Bring.cuh). Where a step would have to be longer than any,
// the module does not change, and a note says how long; likewise where there
// are none to stream, or it never pays, or where nobody asked and it would.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H
#define MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::moe {

/// The pass; `rows` is the shortest step that streams, -1: where it pays, 0:
/// none, but a note where it would. `mayPack`: weights may have another layout
/// than the file's.
std::unique_ptr<Pass> createStreamExpertsPass(int64_t rows, bool mayPack);
void registerStreamExpertsPass();

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H
