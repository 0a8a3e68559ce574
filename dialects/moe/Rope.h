//===- Rope.h - Frequencies of rotary position embeddings -------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_ROPE_H
#define MOE_DIALECTS_MOE_ROPE_H

#include "dialects/moe/Moe.h"

namespace mlir::moe {

/// Radians per position of each of the dim / 2 pairs of elements:
/// base^(-2i/dim) or, scaled for a longer context, as #moe.rope describes.
/// Computed in double.
SmallVector<float> ropeInvFreq(RopeAttr rope);

} // namespace mlir::moe

#endif // The fused instruction; if not fused, `gate`, `up` and `mul`.
