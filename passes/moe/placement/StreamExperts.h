//===- StreamExperts.h - Streams experts to a GPU ---------------*- C++ -*-===//
//
// In steps from some length on, a GPU copies experts' matrices from the host
// and multiplies them. ExpertStreaming.h computes the length from which that is
// faster. moe-place-devices leaves room for the slots if it pays.
//
// Invariant: `@streamed_prefill` handles the steps of `@prefill` from that
// length on; if there are no shorter steps, `@prefill` itself does. In it,
// experts of the host run on the GPU of their layer's router and have
// kStreamedAttr, if that GPU can read their weights in the CPU's layout and has
// room for their slots (kernels/cuda/Bring.cuh). The module only gets a note if
// the length exceeds --ubatch, if there are no experts to stream, if streaming
// never pays, or if it was not requested and would pay.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H
#define MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::moe {

/// Creates the pass. `rows` is the shortest step that streams; -1 computes it,
/// 0 only adds a note where streaming would pay. With `mayPack`, weights may
/// have another layout than the file's.
std::unique_ptr<Pass> createStreamExpertsPass(int64_t rows, bool mayPack);
void registerStreamExpertsPass();

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_STREAMEXPERTS_H
