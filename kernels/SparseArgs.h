//===- SparseArgs.h - Sparse attention and hyper-connections ----*- C++ -*-===//
//
// Arguments and memory of instructions, as kernels/Abi.h and kernels/Scratch.h
// have those of others, which gemms are compiled with. A token's
// entries: rows of a cache that are for `ratio` positions each, entry i, which
// is made of positions i * ratio ... (i + 1) * ratio - 1, in the row of the
// last of them. The token at position p sees the first (p + 1) / ratio.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_SPARSEARGS_H
#define MOE_KERNELS_SPARSEARGS_H

#include "kernels/Abi.h"
#include "kernels/Scratch.h"

namespace moek {

/// (x - mean) / sqrt(mean of squares of that + eps) * weight + bias, per row.
struct LayerNormArgs {
  const float *x; ///< [T, cols]
  int64_t xStride;
  const float *weight, *bias; ///< [cols]
  float *out;                 ///< [T, cols]; may be x.
  int64_t outStride;
  int64_t cols;
  float eps;
};

/// Rows of a cache as they are.
struct RowStoreArgs {
  const float *x; ///< [T, width of the cache]
  int64_t xStride;
  KvView kv;
  int32_t ring = 0; ///< Rows of a sequence's ring; 0: it has pages.
};

/// out[t][e] = scale * sum over h of weights[t][h] * max(q[t][h] . row of e, 0)
/// of the entries e that t sees; others are not written.
struct IndexScoresArgs {
  const float *q; ///< [T, heads * key]
  int64_t qStride;
  const float *weights; ///< [T, heads]
  int64_t weightsStride;
  KvView kv;  ///< Rows of `key`.
  float *out; ///< [T, entries of a context]
  int64_t outStride;
  int32_t heads, key, ratio;
  float scale;
};

/// The topK entries of the largest scores that a token sees, or all where it
/// sees no more, by rising number. Of equal scores the lower number is chosen;
/// one that is not a number counts as larger than all.
struct IndexSelectArgs {
  const float *scores; ///< [T, entries of a context] of IndexScores.
  int64_t scoresStride;
  int32_t *chosen; ///< [T, topK]; -1 behind the last one.
  int32_t topK, ratio;
};

/// Attention whose one head of keys and values is what rows hold: a token sees
/// the last `window` rows of `kv` and the `chosen` of its entries, or all of
/// them. As AttentionArgs otherwise.
struct SparseAttentionArgs {
  const float *q; ///< [T, heads * key]
  int64_t qStride;
  KvView kv;      ///< Rows of `key`, of which values are the first; window > 0.
  KvView entries; ///< Likewise; ratio > 0.
  const int32_t *chosen; ///< [T, topK] of IndexSelect, or null.
  const float *sinks;    ///< [heads] or null.
  float *out;            ///< [T, heads * value]
  int64_t outStride;
  int32_t heads, key, value, window, ratio, topK;
  float scale;
  int32_t ring = 0; ///< Of RowStore, for `kv`.
};

/// Of `ratio` tokens' values one: per column a sum weighted by the softmax,
/// over these tokens, of gate + ape[token's place among them]. With `overlap`
/// each token has two values and gates, and an entry is made of the second ones
/// of its own tokens and the first ones of the entry's before it, if there is
/// one. Written to `out` for the last token of an entry, and only for it.
struct CompressArgs {
  const float *kv, *gate; ///< [T, cols], or [T, 2 * cols] with overlap.
  int64_t kvStride, gateStride;
  const float *ape; ///< [ratio, columns of kv]
  /// A sequence's row has, of sums that are not complete, [largest, total
  /// weight, weighted sum][cols] of an entry's own tokens; with overlap then of
  /// their first values, and of those of the entry before.
  KvView state;
  float *out; ///< [T, cols]
  int64_t outStride;
  int64_t cols;
  int32_t ratio;
  bool overlap;
};

/// For the last token of each entry: x / rms(x) * weight, with the last `dim`
/// elements turned, as neighbours, by the position of the entry's first token.
struct EntryStoreArgs {
  const float *x; ///< [T, cols] of Compress.
  int64_t xStride;
  const float *weight;  ///< [cols]
  const float *invFreq; ///< [dim / 2], radians per position.
  KvView kv;
  int64_t cols;
  int32_t dim, ratio;
  float eps;
};

/// How `streams` residual streams mix, arXiv 2409.19606 with a doubly
/// stochastic matrix. x has `streams` logits of what a part reads, as many of
/// what it writes and streams^2 of from and to; or the first alone.
///   pre  = sigmoid(x * scale[0] + base) + eps
///   post = 2 sigmoid(x * scale[1] + base)
///   C    = softmax over `to` of (x * scale[2] + base) + eps, divided by sums
///          over `from` + eps, then iterations - 1 times by those over `to`,
///          and over `from`
struct HyperWeightsArgs {
  const float *x; ///< [T, cols]
  int64_t xStride;
  const float *scale; ///< [3], or [1]
  const float *base;  ///< [cols]
  float *out;         ///< [T, cols]: pre, post, C [from, to].
  int64_t outStride;
  int64_t cols;
  int32_t streams, iterations;
  float eps;
};
inline constexpr int32_t kMaxStreams = 8;

/// out = sum over i of pre[i] * x[i].
struct HyperCollapseArgs {
  const float *x; ///< [T, streams * cols]
  int64_t xStride;
  const float *weights; ///< [T, at least streams] of HyperWeights.
  int64_t weightsStride;
  float *out; ///< [T, cols]
  int64_t outStride;
  int64_t cols;
  int32_t streams;
};

/// out[j] = post[j] * y + sum over i of C[i, j] * x[i]; without x and weights
/// y.
struct HyperSpreadArgs {
  const float *y; ///< [T, cols]
  int64_t yStride;
  const float *x; ///< [T, streams * cols] or null.
  int64_t xStride;
  const float *weights; ///< [T, 2 * streams + streams^2] or null.
  int64_t weightsStride;
  float *out; ///< [T, streams * cols]
  int64_t outStride;
  int64_t cols;
  int32_t streams;
};

/// out = silu(min(gate, limit)) * max(-limit, min(up, limit)).
struct ClampedMulArgs {
  const float *gate, *up; ///< [T * rowsPerToken, cols]
  float *out;             ///< May be gate or up.
  int64_t cols;
  int32_t rowsPerToken;
  float limit;
};

/// A Router whose choice is a table's row for the token. Where that has a
/// number that is no expert's, or one twice, the weights are NaN.
struct HashRouterArgs {
  RouterArgs router;     ///< Without biases and groups.
  const int32_t *tokens; ///< [T]
  const int32_t *table;  ///< [vocabulary, topK]
};

/// IndexScores: a block of keys as floats, and their products with each head.
constexpr int64_t indexScoresScratchBytes(int64_t heads, int64_t key) {
  return kKeyTile * (scratchFloats(key) + heads) * 4;
}
/// IndexSelect sorts scores by so many bits at a time.
inline constexpr int64_t kSelectBits = 11;
constexpr int64_t indexSelectScratchBytes() {
  return (int64_t(1) << kSelectBits) * 4;
}
/// SparseAttention: a block of rows as floats; of a token's heads scores,
/// running maxima and sums, and rescaling factors.
constexpr int64_t sparseAttentionScratchBytes(int64_t heads, int64_t key) {
  return (kKeyTile * (scratchFloats(key) + heads) + 3 * scratchFloats(heads)) *
         4;
}
/// Floats of a row of Compress' state.
constexpr int64_t compressStateWidth(int64_t columns, bool overlap) {
  return ((overlap ? 9 : 3) * columns + 15) / 16 * 16;
}

} // namespace moek

#endif // MOE_KERNELS_SPARSEARGS_H
