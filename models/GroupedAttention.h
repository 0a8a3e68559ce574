//===- GroupedAttention.h - Attention with shared heads ---------*- C++ -*-===//

#ifndef MOE_MODELS_GROUPEDATTENTION_H
#define MOE_MODELS_GROUPEDATTENTION_H

#include "models/Decoder.h"
#include "models/Rope.h"

namespace moec {

/// Multi-head attention whose heads share keys and values in groups.
struct GroupedAttention {
  int64_t heads = 0, kvHeads = 0;
  int64_t key = 0, value = 0; ///< Elements of a head.
  mlir::moe::RopeAttr rope;
  double eps = 0;     ///< Of norms of queries and keys.
  int64_t window = 0; ///< Of layers with one, in tokens; 0: none has.
  double scale = 0;   ///< Of scores.
  double softcap = 0; ///< c in c * tanh(score / c); 0 leaves scores alone.
  /// Values are normed, without a weight, and are what attn_k makes in layers
  /// without attn_v.
  bool normedValues = false;
  /// attn_q has a gate of each head behind its query, whose sigmoid the head's
  /// result is multiplied with.
  bool gated = false;
};

/// The keys attention.* and rope.*. Without attention.head_count_kv no heads
/// share, without attention.key_length a head has its share of the hidden size.
moert::StatusOr<GroupedAttention> readGroupedAttention(ModelBuilder &model,
                                                       const Decoder &decoder,
                                                       const RopeTraits &rope);

/// What attention of `layer` makes of normed rows `x`; with `windowed` of the
/// last tokens alone. Taken where the file has them: biases of attn_{q,k,v,
/// output}, attn_qkv instead of the first three, attn_{q,k}_norm, over each
/// head or over all of them by its length, and attn_sinks.
moert::StatusOr<mlir::Value>
buildGroupedAttention(ModelBuilder &model, const GroupedAttention &attention,
                      int64_t layer, const std::string &block, mlir::Value x,
                      bool windowed);

/// Its parts: queries of `x`, the cache of `layer` with keys and values of `x`,
/// and `hidden` columns of what queries find in a cache, of this layer or
/// another, times the sigmoid of `gate`, if there is one.
moert::StatusOr<mlir::Value> buildQueries(ModelBuilder &model,
                                          const GroupedAttention &attention,
                                          const std::string &block,
                                          mlir::Value x);
moert::StatusOr<mlir::Value>
buildKeysAndValues(ModelBuilder &model, const GroupedAttention &attention,
                   int64_t layer, const std::string &block, mlir::Value x);
moert::StatusOr<mlir::Value>
buildMixture(ModelBuilder &model, const GroupedAttention &attention,
             const std::string &block, mlir::Value q, mlir::Value kv,
             int64_t hidden, bool windowed, mlir::Value gate = {});

} // namespace moec

#endif // MOE_MODELS_GROUPEDATTENTION_H
