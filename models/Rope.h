//===- Rope.h - Rotary embeddings as files describe them --------*- C++ -*-===//

#ifndef MOE_MODELS_ROPE_H
#define MOE_MODELS_ROPE_H

#include "dialects/moe/Moe.h"
#include "models/HyperParams.h"

namespace moec {

/// Rotation of queries and keys.
struct Rope {
  mlir::moe::RopeAttr attr;
  /// By which YaRN stretches the context; 1 without YaRN.
  double yarnFactor = 1;
};

/// The keys rope.dimension_count, rope.freq_base and rope.scaling.*: no
/// scaling, linear (angles divided by the factor) or YaRN (arXiv 2309.00071).
/// `neox` pairs elements i and i + dim/2, otherwise 2i and 2i + 1.
/// YaRN's magnitude is the caller's: architectures differ in where it goes.
moert::StatusOr<Rope> readRope(const HyperParams &params,
                               mlir::MLIRContext *context, bool neox);

} // namespace moec

#endif // MOE_MODELS_ROPE_H
