//===- Rings.h - Which caches keep a window's rows alone --------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_GRAPH_RINGS_H
#define MOE_PASSES_MOE_GRAPH_RINGS_H

#include "dialects/moe/Moe.h"

namespace mlir::moe {

/// Rows of the ring that a sequence has of this cache, as whoever reads it sees
/// a window (kernels/Ring.h); 0 where the cache has pages: some reader sees all
/// positions, or rings would take no less memory.
int64_t ringRowsOf(CacheOpInterface op);

/// Bytes of this cache: of its pages, `rows` rows in all, or of its rings.
int64_t cacheBytesOf(CacheOpInterface op, int64_t rows);

/// Bytes of a page of every layer's cache of the model graph, or of any of its
/// phases.
int64_t kvPageBytes(ModuleOp module);

/// Of all rings and other states of the model graph, or of any of its phases.
int64_t stateBytes(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_GRAPH_RINGS_H
