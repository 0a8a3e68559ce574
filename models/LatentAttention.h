//===- LatentAttention.h - Multi-head latent attention ----------*- C++ -*-===//

#ifndef MOE_MODELS_LATENTATTENTION_H
#define MOE_MODELS_LATENTATTENTION_H

#include "models/GroupedAttention.h"

namespace moec {

/// Multi-head latent attention (arXiv 2405.04434). Files have one of two
/// layouts. Old: one attn_kv_b, and key_length is that of a head. New: attn_k_b
/// (transposed) and attn_v_b, and the lengths of a head are in keys that end in
/// _mla. The tensors show which layout it is, and whether queries have a
/// low-rank factor.
struct LatentAttention {
  int64_t heads, nope, value, latent;
  int64_t shared; ///< Key elements that all heads share, and that rope rotates.
  mlir::moe::RopeAttr rope; ///< Null if no elements are rotated.
  double eps;
  double scale;            ///< Factor on scores.
  Temperature temperature; ///< Scales queries; see readTemperature().
  bool rotates;            ///< Whether rope rotates the shared elements.
};

/// Reads the keys attention.* and stores them in the model's facts. `eps` is
/// the epsilon of every norm. Unless it `rotates`, elements that others rotate
/// are used as they are, and rope.dimension_count may be 0.
moert::StatusOr<LatentAttention>
readLatentAttention(ModelBuilder &model, double eps, bool rotates = true);

/// Returns the normed low-rank factor of queries [T, q_lora_rank]; null if
/// there is none.
moert::StatusOr<mlir::Value> buildQueryLatent(ModelBuilder &model,
                                              const LatentAttention &config,
                                              const std::string &block,
                                              mlir::Value x);

/// Maps normed rows `x` [T, hidden] to rows that are added to the residual
/// stream. `queries` is x, or the low-rank factor if queries have one. Each
/// token attends to the `chosen` blocks of `pool` positions and those behind
/// the last block, or to all if that is null. If the file has attn_gate, the
/// sigmoid of its product with x multiplies each head's result, or each
/// element of it.
moert::StatusOr<mlir::Value>
buildLatentAttention(ModelBuilder &model, const LatentAttention &config,
                     int64_t layer, const std::string &block, mlir::Value x,
                     mlir::Value queries, mlir::Value chosen = {},
                     int64_t pool = 1);

/// Builds attention to all positions, with the low-rank factor of queries if
/// there is one.
moert::StatusOr<mlir::Value>
buildLatentAttention(ModelBuilder &model, const LatentAttention &config,
                     int64_t layer, const std::string &block, mlir::Value x);

} // namespace moec

#endif // MOE_MODELS_LATENTATTENTION_H
