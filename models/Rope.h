//===- Rope.h - Rotary embeddings as files describe them --------*- C++ -*-===//

#ifndef MOE_MODELS_ROPE_H
#define MOE_MODELS_ROPE_H

#include "models/ModelBuilder.h"

namespace moec {

/// Rotation of queries and keys.
struct Rope {
  mlir::moe::RopeAttr attr;
  /// By which YaRN stretches the context; 1 without YaRN.
  double yarnFactor = 1;
};

/// What files do not say.
struct RopeTraits {
  /// Pairs elements i and i + dim/2, otherwise 2i and 2i + 1.
  bool neox = true;
  /// The ends of YaRN's ramp are whole dimensions.
  bool rounded = true;
  /// YaRN's magnitude, (1 + 0.1 ln factor) * attn_factor, is part of the
  /// rotation; where it is not, it is the caller's.
  bool magnitude = true;
  /// Of the keys rope.dimension_count and freq_base: layers with a window may
  /// have their own, which end in "_swa" and rope_freqs does not divide.
  const char *suffix = "";
  /// Whether the keys rope.scaling.* and the tensors that replace them apply.
  bool scaled = true;
};

/// The keys rope.dimension_count (without which it is `headDim`, if that is
/// known), rope.freq_base and rope.scaling.*: no scaling, linear (angles
/// divided by the factor), YaRN (arXiv 2309.00071) or LongRoPE, whose divisors
/// of each frequency are the tensor rope_factors_short or, for more positions
/// than rope.scaling.original_context_length, rope_factors_long; otherwise the
/// tensor rope_freqs has divisors (Llama 3.1).
moert::StatusOr<Rope> readRope(ModelBuilder &model, const RopeTraits &traits,
                               std::optional<int64_t> headDim = {});

} // namespace moec

#endif // MOE_MODELS_ROPE_H
