//===- LatentAttention.h - Multi-head latent attention ----------*- C++ -*-===//

#ifndef MOE_MODELS_LATENTATTENTION_H
#define MOE_MODELS_LATENTATTENTION_H

#include "models/ModelBuilder.h"

namespace moec {

/// arXiv 2405.04434. Files come in two layouts. Old: one attn_kv_b, key_length
/// is a head's. New: attn_k_b (transposed) and attn_v_b, a head's lengths are
/// in the keys that end in _mla. Tensors tell which, and whether queries have a
/// low-rank factor.
struct LatentAttention {
  int64_t heads, nope, value, latent;
  mlir::moe::RopeAttr rope;
  double eps;
  double scale; ///< Of the scores.
};

/// The keys attention.*, noted in the model's facts. `eps` is of every norm.
moert::StatusOr<LatentAttention> readLatentAttention(ModelBuilder &model,
                                                     double eps);

/// The low-rank factor of queries, normed [T, q_lora_rank]; null without one.
moert::StatusOr<mlir::Value> buildQueryLatent(ModelBuilder &model,
                                              const LatentAttention &config,
                                              const std::string &block,
                                              mlir::Value x);

/// Normed rows `x` [T, hidden] to rows to add. `queries` is x, or its low-rank
/// factor where queries have one. Each token sees the positions `chosen`, all
/// where that is null.
moert::StatusOr<mlir::Value>
buildLatentAttention(ModelBuilder &model, const LatentAttention &config,
                     int64_t layer, const std::string &block, mlir::Value x,
                     mlir::Value queries, mlir::Value chosen = {});

} // namespace moec

#endif // MOE_MODELS_LATENTATTENTION_H
