//===- Rope.h - Reads rotary position embeddings ----------------*- C++ -*-===//

#ifndef MOE_MODELS_ROPE_H
#define MOE_MODELS_ROPE_H

#include "models/ModelBuilder.h"

namespace moec {

/// The rotation of queries and keys.
struct Rope {
  mlir::moe::RopeAttr attr;
  /// Factor by which YaRN extends the context; 1 without YaRN.
  double yarnFactor = 1;
};

/// Properties of an architecture that files do not state.
struct RopeTraits {
  /// Whether elements i and i + dim/2 form a pair; otherwise 2i and 2i + 1 do.
  bool neox = true;
  /// Whether the ends of YaRN's ramp are rounded to whole dimensions.
  bool rounded = true;
  /// Whether YaRN's magnitude, (1 + 0.1 ln factor) * attn_factor, is part of
  /// the rotation. If not, the caller applies it.
  bool magnitude = true;
  /// Whether that magnitude is divided by 1 + 0.1 * yarn_log_multiplier * ln
  /// factor.
  bool relativeMagnitude = false;
  /// Rotates this part of rope.dimension_count.
  int64_t divisor = 1;
  /// Whether there is a rotation at all.
  bool rotates = true;
  /// Suffix of the keys rope.dimension_count and rope.freq_base: windowed
  /// layers may have their own with "_swa", to which rope_freqs does not apply.
  const char *suffix = "";
  double base = 1e4; ///< Default of rope.freq_base.
  /// Whether the keys rope.scaling.* and the tensors that replace them apply.
  bool scaled = true;
};

/// Reads the keys rope.dimension_count (at most `headDim`; the default is
/// `dimensions`, or else headDim), rope.freq_base and rope.scaling.*. Scaling
/// is none, linear (angles divided by the factor), YaRN (arXiv 2309.00071) or
/// LongRoPE. LongRoPE divides frequencies by the tensor rope_factors_short or,
/// for more positions than rope.scaling.original_context_length, by
/// rope_factors_long. Without LongRoPE, the tensor rope_freqs may have divisors
/// (Llama 3.1).
moert::StatusOr<Rope> readRope(ModelBuilder &model, const RopeTraits &traits,
                               std::optional<int64_t> headDim = {},
                               std::optional<int64_t> dimensions = {});

} // namespace moec

#endif // MOE_MODELS_ROPE_H
