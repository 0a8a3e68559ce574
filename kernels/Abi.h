//===- Abi.h - What a kernel receives ---------------------------*- C++ -*-===//
//
// Kernels take pointers, strides and plain numbers. They do not allocate, do
// no I/O and start no threads: every worker of the pool calls the kernel with
// the same arguments and does its share (SPMD). Arguments are built once when
// a plan is loaded and are constant; what changes from step to step is Step.
//
// Conventions. Strides of F32 and I32 buffers count elements; strides of
// encoded activations and of weights count bytes. T is Step::tokens, D the
// hidden size, K the columns of a weight (inputs), N its rows (outputs), E the
// number of experts, k the experts per token. A slot is one (token, choice)
// pair, number t * k + j, so a step has T * k slots.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ABI_H
#define MOE_KERNELS_ABI_H

#include "kernels/OpCode.h"
#include "kernels/Types.h"

namespace moek {

struct EmbedArgs {
  const int32_t *tokens; ///< [T]
  WeightView table;      ///< [vocab, at least begin + cols]
  float *out;            ///< [T, cols]
  int64_t outStride;
  /// Columns of the table, whole blocks of its format.
  int64_t begin, cols;
};

struct RopeTableArgs {
  const float *invFreq; ///< [dim / 2], radians per position.
  int32_t dim;
  float *out; ///< [T, dim]: dim/2 cosines, then dim/2 sines.
  /// What they are multiplied by: YaRN's magnitude, which queries and keys get
  /// each. 1 elsewhere.
  float scale = 1;
};

struct RmsNormArgs {
  const float *x; ///< [T, groups * cols]
  int64_t xStride;
  const float *weight; ///< [cols], or null: all 1.
  float *out;          ///< Same shape as x; may be x.
  int64_t outStride;
  int64_t groups, cols;
  float eps;
};

struct QuantizeArgs {
  const float *x; ///< [T * rowsPerToken, cols]
  int64_t xStride;
  uint8_t *out; ///< A8 or A8K rows.
  int64_t outStride;
  int64_t cols;
  int32_t rowsPerToken;
  int32_t blockCols; ///< That share a scale: a8BlockCols() of the encoding.
};

struct LinearArgs {
  const uint8_t *act; ///< [T, K], in the encoding that `gemm` reads.
  int64_t actStride;  ///< Bytes.
  WeightView w;       ///< [N, K]
  GemmFn gemm;
  const float *bias; ///< [N] or null.
  float *out;        ///< [T, N]
  int64_t outStride;
  bool accumulate; ///< out += instead of out =.
};

struct GateUpArgs {
  const uint8_t *act; ///< [T, K]
  int64_t actStride;
  WeightView gate, up; ///< [F, K]
  GemmFn gateGemm, upGemm;
  float *out; ///< [T, F]
  int64_t outStride;
  Activation activation = Activation::Silu;
  const float *gateBias = nullptr, *upBias = nullptr; ///< [F] or null.
};

struct ActivationMulArgs {
  const float *gate, *up; ///< [T * rowsPerToken, cols]
  float *out;             ///< May be gate or up.
  int64_t cols;
  int32_t rowsPerToken;
  Activation activation = Activation::Silu;
};

struct SigmoidMulArgs {
  const float *x;    ///< [T, cols]
  const float *gate; ///< [T, cols], or [T] where it is one of the whole row.
  float *out;        ///< [T, cols]; may be x, or a gate of as many columns.
  int64_t cols;
  bool gateOfRow;
};

/// out = factor * x, or softcap * tanh(factor * x / softcap).
struct ScaleArgs {
  const float *x; ///< [T, cols]
  float *out;     ///< May be x.
  int64_t cols;
  float factor, softcap; ///< softcap 0: none.
};

struct AddArgs {
  const float *x, *y; ///< [T, cols]
  float *out;         ///< May be x or y.
  int64_t cols;
};

struct RopeArgs {
  float *x; ///< [T, heads * headStride], rotated in place.
  int64_t stride;
  const float *table; ///< [T, dim] from RopeTable.
  int32_t heads, headStride;
  int32_t offset, dim; ///< Of the rotated part inside a head.
  bool neox;           ///< Pairs (i, i + dim/2) instead of (2i, 2i + 1).
};

struct MlaLatentArgs {
  const float *x; ///< [T, latent + rope]: raw latent, raw rope key.
  int64_t stride;
  const float *weight; ///< [latent] RMS norm of the latent.
  const float *table;  ///< [T, rope]
  KvView kv;           ///< Row position + t becomes [norm(latent) | rope key].
  int32_t latent, rope;
  float eps;
};

/// With W_UK transposed this is a HeadLinear.
struct AbsorbQueryArgs {
  const float *q; ///< [T, heads * (nope + rope)], rope part already rotated.
  int64_t qStride;
  WeightView w; ///< [heads, nope, latent]
  float *out; ///< [T, heads * (latent + rope)]: [W^T q_nope | q_rope] per head.
  int64_t outStride;
  int32_t heads, nope, rope, latent;
};

struct LatentAttentionArgs {
  const float *q; ///< [T, heads * (latent + rope)]
  int64_t qStride;
  KvView kv; ///< Rows [latent | rope key]; 0 .. position + t are visible to t.
  /// [T, heads * latent]; or with splits > 1 what LatentCombine reads,
  /// [T * splits, heads * (latent + 2)]: per span of the cache the weighted
  /// sums of each head, then maximum score and sum of weights of each head.
  float *out;
  int64_t outStride;
  int32_t heads, latent, rope;
  int32_t splits; ///< Spans of the cache at most.
  float scale;
};

/// Of Attention too: `latent` is its value, and window as there.
struct LatentCombineArgs {
  const float *x; ///< [T * splits, heads * (latent + 2)] of LatentAttention.
  int64_t xStride;
  float *out; ///< [T, heads * latent]
  int64_t outStride;
  int32_t heads, latent, splits;
  int32_t window = 0; ///< 0: none.
};

/// Rows of a cache as kernels/KvCache.h has it for groups of heads.
struct KvStoreArgs {
  const float *k; ///< [T, heads * key], after norm and RoPE.
  int64_t kStride;
  const float *v; ///< [T, heads * value]
  int64_t vStride;
  KvView kv;
  int32_t heads, key, value; ///< heads: those that keys and values have.
  int32_t ring = 0;          ///< Rows of a sequence's ring; 0: it has pages.
};

/// Query head h reads keys and values of head h / (heads / kvHeads). With score
/// s = scale * q k^T, or softcap * tanh(s / softcap) where there is a cap, each
/// value's weight is exp(s) over the sum of all, and of exp(sinks[h]): a sink
/// is one score more that has no value.
struct AttentionArgs {
  const float *q; ///< [T, heads * key]
  int64_t qStride;
  KvView kv;          ///< Of KvStore; 0 .. position + t are visible to t.
  const float *sinks; ///< [heads] or null.
  /// [T, heads * value]; or with splits > 1 what LatentCombine reads, as
  /// LatentAttention's, sinks in the first span that a token sees.
  float *out;
  int64_t outStride;
  int32_t heads, kvHeads, key, value;
  int32_t splits; ///< Spans of the cache at most.
  int32_t window; ///< Positions that a token sees, its own the last; 0: all.
  float scale, softcap; ///< softcap 0: none.
  int32_t ring = 0;     ///< Of KvStore.
};

/// Of every group's columns from `offset` on, parts[0] columns, then parts[1],
/// then parts[2]; out has the first parts of all groups, then the second ...
struct RegroupArgs {
  const float *x; ///< [T, groups * width]
  int64_t xStride;
  float *out; ///< [T, groups * (parts[0] + parts[1] + parts[2])]
  int64_t outStride;
  int64_t width;
  int32_t groups, offset;
  int32_t parts[3]; ///< The last ones may be 0.
};

/// y[t] = sum over j < taps of weight[j] * x[t - taps + 1 + j], per column,
/// with zeros before a sequence's first row; out[t] = y[t] * sigmoid(y[t]).
struct ShortConvArgs {
  const float *x; ///< [T, cols]
  int64_t xStride;
  const float *weight; ///< [cols, taps]
  /// A sequence's row begins with its last taps - 1 inputs, [taps - 1, cols].
  KvView state;
  float *out; ///< [T, cols]
  int64_t outStride;
  int64_t cols;
  int32_t taps; ///< 1 to kMaxTaps.
};

struct DeltaGatesArgs {
  const float *beta, *alpha; ///< [T, heads]
  const float *a, *dt;       ///< [heads]
  float *out; ///< [T, 2, heads]: write strengths, then decays, see DeltaRule.
  int64_t heads;
};

/// The gated delta rule, arXiv 2412.06464. Value head h has the key and query
/// of key head h / (heads / keyHeads), or, `tiled`, h % keyHeads, each divided
/// by the root of its sum of squares + eps, the query by the root of `key` too.
/// With a matrix S [key, value] per head, zero before a sequence's first row:
///   S *= decay;  S += k (strength * (v - S^T k))^T;  out = S^T q
struct DeltaRuleArgs {
  /// [T, 2 * keyHeads * key + heads * value]: queries, keys, values.
  const float *x;
  int64_t xStride;
  const float *gates; ///< [T, 2, heads] of DeltaGates.
  /// A sequence's row has S [heads, key, value] from float `begin` on.
  KvView state;
  float *out; ///< [T, heads * value]
  int64_t outStride;
  int64_t begin;
  int32_t keyHeads, heads, key, value;
  bool tiled;
  float eps;
};

/// Per head h: out[t][h] = [w[h] * x[t][h] | tail of x[t][h]].
struct HeadLinearArgs {
  const float *x; ///< [T, heads * (K + tail)]
  int64_t xStride;
  WeightView w; ///< [heads, N, K]
  GemmFn gemm;
  Encoding encoding; ///< Of the activations that `gemm` reads: F32, A8, A8K.
  float *out;        ///< [T, heads * (N + tail)]
  int64_t outStride;
  int32_t tail; ///< Columns of a head that are copied.
};

struct MlaAttentionArgs {
  const float *q; ///< [T, heads * (nope + rope)], rope part already rotated.
  int64_t qStride;
  KvView kv; ///< Rows [latent | rope key].
  /// [heads, nope, latent] with a gemm; without one [heads, latent, nope].
  WeightView wk;
  GemmFn keyGemm;
  WeightView wv; ///< [heads, value, latent]
  GemmFn valueGemm;
  Encoding encoding; ///< Of the activations that the gemms read: F32, A8, A8K.
  float *out;        ///< [T, heads * value]
  int64_t outStride;
  int32_t heads, nope, rope, latent, value;
  float scale;
};

/// A Scoring beside those in Types.h, which gemms are compiled with:
/// sqrt(ln(1 + e^x)).
inline constexpr Scoring kSqrtSoftplus = Scoring(4);
inline constexpr int32_t kScoringCount = 4;

/// Selection uses score + bias, mixing weights the score alone. With groups,
/// the `groupsUsed` groups with the largest sum of their `groupBest` (1 or 2)
/// best biased scores stay eligible. Ties go to the
/// lower index. SoftmaxTopK takes the softmax over the selected logits only.
/// weights = score, divided by their sum if `normalize`, times `scale` and
/// times expertScale of the expert; all of them NaN for a token with a logit,
/// chosen or not, or a bias that is not finite, as its choice means nothing.
/// Ids are valid and distinct even then.
struct RouterArgs {
  const float *logits; ///< [T, experts]
  int64_t stride;
  const float *bias; ///< [experts] or null.
  int32_t *ids;      ///< [T, topK], by falling biased score.
  float *weights;    ///< [T, topK]
  int32_t experts, topK, groups, groupsUsed, groupBest;
  Scoring scoring;
  bool normalize;
  float scale;
  const float *expertScale = nullptr; ///< [experts] or null: all 1.
};

/// Choices in falling order of their weights, equal ones as they were and those
/// that are no number behind all others: topK - last of them, and the rest.
struct SplitChoicesArgs {
  const int32_t *ids;   ///< [T, topK]
  const float *weights; ///< [T, topK]
  int32_t *firstIds;    ///< [T, topK - last]
  float *firstWeights;
  int32_t *lastIds; ///< [T, last]
  float *lastWeights;
  int32_t topK, last;
};

/// The experts that a device has where a layer's are split between devices. It
/// groups and adds up the choices of these alone, and leaves other slots as
/// they are, which nobody reads; what devices have made is added up after.
struct ExpertSlice {
  /// [experts] The number here of each expert, as a float, or -1 where another
  /// device has it. Null: those from `begin` on, `count` of them, or all if 0.
  const float *map = nullptr;
  int32_t begin = 0, count = 0;

  /// The number here of an expert; negative: it is not here.
  int32_t numberOf(int32_t expert) const {
    if (map)
      return int32_t(map[expert]);
    int32_t number = expert - begin;
    return count == 0 || number < count ? number : -1;
  }
};

struct ExpertGroupArgs {
  const int32_t *ids; ///< [T, topK]
  /// [slice.count + 1, or experts + 1]: where each expert's slots begin.
  int32_t *offsets;
  int32_t *slots; ///< [T * topK]: slot numbers by expert, then by token.
  int32_t experts, topK;
  ExpertSlice slice = {};
};

struct ExpertsLinearArgs {
  const uint8_t *act; ///< [T * topK, K], one row per slot.
  int64_t actStride;
  WeightView w; ///< [E, N, K]
  GemmFn gemm;
  const int32_t *offsets, *slots;
  float *out; ///< [T * topK, N], one row per slot.
  int64_t outStride;
  int32_t topK;
  bool actPerToken; ///< act has one row per token, shared by its slots.
  const float *bias = nullptr; ///< [E, N] or null.
};

struct ExpertsGateUpArgs {
  const uint8_t *act; ///< [T, K], one row per token.
  int64_t actStride;
  WeightView gate, up; ///< [E, F, K]
  GemmFn gateGemm, upGemm;
  const int32_t *offsets, *slots;
  float *out; ///< [T * topK, F], one row per slot.
  int64_t outStride;
  int32_t topK;
  Activation activation = Activation::Silu;
  const float *gateBias = nullptr, *upBias = nullptr; ///< [E, F] or null.
};

/// out = activation(gateScale[e] * gate, upScale[e] * up) of each expert's
/// slots; others stay as they are.
struct ExpertsActivationMulArgs {
  const float *gate, *up; ///< [T * topK, cols]
  /// [experts] or null: all 1. Of files that scale matrices as wholes.
  const float *gateScale, *upScale;
  const int32_t *offsets, *slots;
  float *out; ///< May be gate or up.
  int64_t cols;
  int32_t experts, topK;
  Activation activation = Activation::Silu;
};

struct ExpertsCombineArgs {
  const float *y;       ///< [T * topK, D]
  const float *weights; ///< [T, topK]
  float *out;           ///< [T, D]; out += when `accumulate`, else out =.
  int64_t cols;
  int32_t topK;
  bool accumulate;
  const int32_t *ids = nullptr; ///< [T, topK], or null: every choice is here.
  ExpertSlice slice = {};
};

} // namespace moek

#endif // MOE_KERNELS_ABI_H
