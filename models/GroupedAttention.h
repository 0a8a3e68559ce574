//===- GroupedAttention.h - Grouped-query attention (GQA) -------*- C++ -*-===//

#ifndef MOE_MODELS_GROUPEDATTENTION_H
#define MOE_MODELS_GROUPEDATTENTION_H

#include "models/Decoder.h"
#include "models/Rope.h"

namespace moec {

/// A factor on queries at position p, 1 + slope * ln(1 + floor((p + offset) /
/// length)): softmax over many tokens stays as sharp as over few (arXiv
/// 2501.19399). A length of 0: none.
struct Temperature {
  int64_t length = 0, offset = 0;
  double slope = 0;
};

/// Reads attention.temperature_scale, without which there is none; the key of
/// the length is `length`.
moert::StatusOr<Temperature> readTemperature(const HyperParams &params,
                                             const char *length);

/// Returns queries multiplied by their temperature.
mlir::Value tempered(ModelBuilder &model, const Temperature &temperature,
                     const std::string &block, mlir::Value q);

/// Multi-head attention in which groups of heads share keys and values.
struct GroupedAttention {
  int64_t heads = 0, kvHeads = 0;
  int64_t key = 0, value = 0; ///< Elements of a head's key and of its value.
  mlir::moe::RopeAttr rope;   ///< Null: queries and keys are not rotated.
  double eps = 0;             ///< Epsilon of the norms of queries and keys.
  /// Whether these norms come after the rotation.
  bool normsRotated = false;
  /// Whether there are norms without weights, which the file does not show.
  bool normsBare = false;
  int64_t window = 0; ///< Last tokens that a token sees; 0: all.
  double scale = 0;   ///< Factor on scores.
  double softcap = 0; ///< c in c * tanh(score / c); 0: no softcap.
  /// Whether values are normed, without a weight. Layers without attn_v then
  /// use the result of attn_k as values.
  bool normedValues = false;
  double resultScale = 1; ///< Factor on what attn_output returns.
  /// Limit to which queries, keys and values are clamped before norms and
  /// rotation; 0: none.
  double limit = 0;
  Temperature temperature; ///< Scales queries.
  /// The factor that attn_gate's result is, if the file has attn_gate.
  mlir::moe::Gate gate = mlir::moe::Gate::Sigmoid;
  /// Whether attn_q also produces a gate after the query of each head; the
  /// head's result is multiplied by its sigmoid.
  bool gated = false;
};

/// The blocks of `ratio` positions that tokens attend to, as for
/// moe.block_attention.
struct BlockChoice {
  mlir::Value chosen; ///< Null: tokens attend to all positions.
  int64_t groups = 0, ratio = 0, local = 0;
};

/// Number of the cache of an indexer's keys, the second one of a layer.
inline constexpr uint64_t kIndexPart = 1;

/// Reads the keys attention.* and rope.*. Without attention.head_count_kv,
/// heads share nothing; without attention.key_length, a head has hidden size /
/// heads elements; without attention.scale, scores are divided by the square
/// root of that. attention.clamp_kqv is the limit. Heads are those of `layer`.
moert::StatusOr<GroupedAttention> readGroupedAttention(ModelBuilder &model,
                                                       const Decoder &decoder,
                                                       const RopeTraits &rope,
                                                       int64_t layer = 0);

/// Reads the heads of `layer`, whose keys may have a number for each layer.
moert::Status readHeads(ModelBuilder &model, int64_t layer,
                        GroupedAttention &attention);

/// Returns whether `layer` has attention: its number in attention.head_count_kv
/// is not 0. Files say so where other layers have a state.
moert::StatusOr<bool> hasAttention(const ModelBuilder &model, int64_t layer);

/// Builds the attention of `layer` for normed rows `x`. Uses optional tensors
/// of the file: biases of attn_{q,k,v,output}, attn_qkv instead of the first
/// three, attn_{q,k}_norm (for each head or for all heads, depending on its
/// length), attn_gate (its product with x gates each element of the result or
/// each head, depending on its rows), and attn_sinks. Attends to the blocks of
/// `blocks`, if any.
moert::StatusOr<mlir::Value>
buildGroupedAttention(ModelBuilder &model, const GroupedAttention &attention,
                      int64_t layer, const std::string &block, mlir::Value x,
                      const BlockChoice &blocks = {});

/// The steps of buildGroupedAttention(): buildQueries() returns the queries of
/// `x`; buildKeysAndValues() returns the cache of `layer` with keys and values
/// of `x`; attendAndProject() attends with queries to a cache, of this layer or
/// another, and to its `blocks` alone, if any; multiplies by the factor that
/// `gate` is, if any, and projects to `hidden` columns.
moert::StatusOr<mlir::Value> buildQueries(ModelBuilder &model,
                                          const GroupedAttention &attention,
                                          const std::string &block,
                                          mlir::Value x);
moert::StatusOr<mlir::Value>
buildKeysAndValues(ModelBuilder &model, const GroupedAttention &attention,
                   int64_t layer, const std::string &block, mlir::Value x);
moert::StatusOr<mlir::Value>
attendAndProject(ModelBuilder &model, const GroupedAttention &attention,
                 const std::string &block, mlir::Value q, mlir::Value kv,
                 int64_t hidden, mlir::Value gate = {},
                 const BlockChoice &blocks = {});

} // namespace moec

#endif // MOE_MODELS_GROUPEDATTENTION_H
