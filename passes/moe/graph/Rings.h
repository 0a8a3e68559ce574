//===- Rings.h - Caches that only keep a sliding window ---------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_GRAPH_RINGS_H
#define MOE_PASSES_MOE_GRAPH_RINGS_H

#include "dialects/moe/Moe.h"

namespace mlir::moe {

/// Returns the rows of the ring buffer (kernels/Ring.h) that each sequence has
/// in this cache if all its readers are limited to a window. Returns 0 if the
/// cache has pages instead, because a reader sees all positions or rings would
/// take no less memory.
int64_t ringRowsOf(CacheOpInterface op);

/// Returns the bytes of this cache: of its rings, or of `rows` rows in pages.
int64_t cacheBytesOf(CacheOpInterface op, int64_t rows);

/// Returns the bytes of one KV cache page over all layers: the largest of the
/// module's functions.
int64_t kvPageBytes(ModuleOp module);

/// Returns the bytes of all rings and recurrent states: the largest of the
/// module's functions.
int64_t stateBytes(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_RINGS_H
