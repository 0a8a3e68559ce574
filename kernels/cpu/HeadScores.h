//===- HeadScores.h - Scores of the heads that share keys -------*- C++ -*-===//
//
// The heads of one token that share keys and values lie side by side: row k of
// the scores has one column per head, `stride` floats from row to row. So the
// sums over the lanes of four heads are stored at once, and softmax needs no
// sums or maxima over lanes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_HEADSCORES_H
#define MOE_KERNELS_CPU_HEADSCORES_H

#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/Softmax.h"

namespace moek {

/// Elements of cache rows that are converted to floats when they are read.
/// Load reads a vector; see withKvType.
template <class S, class Load> struct Converted {
  Load load;
  int bytes; ///< Bytes of an element.

  MOE_INLINE typename S::Vec at(const uint8_t *row, int64_t column,
                                WholeLanes<S>) const {
    return load(row + column * bytes);
  }
  MOE_INLINE typename S::Vec at(const uint8_t *row, int64_t column,
                                PartLanes<S> lanes) const {
    alignas(64) uint8_t part[S::kWidth * 4] = {};
    std::memcpy(part, row + column * bytes, size_t(lanes.count * bytes));
    return load(part);
  }
};

template <class S, class Load>
MOE_INLINE Converted<S, Load> converted(Load load, int bytes) {
  return {load, bytes};
}

/// Elements that are floats already.
template <class S> MOE_INLINE auto floatRows() {
  return converted<S>(
      [](const uint8_t *p) { return S::load((const float *)p); }, 4);
}

/// R heads, C keys. Heads up to the next multiple of four get scores too.
template <class S, int R, int C, class From>
MOE_INLINE void scoreBlock(From from, Rows q, const uint8_t *const *keys,
                           int64_t dim, float scale, float *out,
                           int64_t stride) {
  using Vec = typename S::Vec;
  constexpr int kFours = (R + 3) / 4;
  Vec sum[C][kFours][4];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c)
#pragma GCC unroll 8
    for (int r = 0; r < kFours * 4; ++r)
      sum[c][r / 4][r % 4] = S::zero();
  forVectors<S>(0, dim, [&](int64_t d, auto lanes) {
    Vec key[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      key[c] = from.at(keys[c], d, lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec query = lanes.load(q.data + r * q.stride + d);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[c][r / 4][r % 4] = S::fma(query, key[c], sum[c][r / 4][r % 4]);
    }
  });
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c)
#pragma GCC unroll 2
    for (int i = 0; i < kFours; ++i)
      S::reduceAdd4(sum[c][i], scale, out + c * stride + i * 4);
}

/// All heads with C keys, R at a time. Blocks begin at multiples of four heads.
template <class S, int R, int C, class From, class Ahead>
MOE_INLINE void scoreHeads(From from, Rows q, int64_t heads,
                           const uint8_t *const *keys, int64_t dim, float scale,
                           float *out, int64_t stride, Ahead &ahead) {
  int64_t h = 0;
  for (; h + R <= heads; h += R) {
    scoreBlock<S, R, C>(from, {q.data + h * q.stride, q.stride}, keys, dim,
                        scale, out + h, stride);
    ahead.next();
  }
  if constexpr (R > 1)
    if (h < heads)
      scoreHeads<S, R == 8 ? 4 : R - 1, C>(
          from, {q.data + h * q.stride, q.stride}, heads - h, keys, dim, scale,
          out + h, stride, ahead);
}

/// out[k][h] = scale * q[h] * key k, for `n` keys of `dim` columns.
/// ahead.next() is called between products.
template <class S, class From, class Ahead>
void scoreRows(From from, Rows q, int64_t heads, const uint8_t *const *keys,
               int64_t n, int64_t dim, float scale, float *out, int64_t stride,
               Ahead ahead) {
  constexpr int R = S::kDotHeads, C = S::kDotKeys;
  ahead.divide((heads + R - 1) / R * (n / C));
  int64_t k = 0;
  for (; k + C <= n; k += C)
    scoreHeads<S, R, C>(from, q, heads, keys + k, dim, scale, out + k * stride,
                        stride, ahead);
  for (; k < n; ++k)
    scoreHeads<S, R, 1>(from, q, heads, keys + k, dim, scale, out + k * stride,
                        stride, ahead);
}

/// Turns the next `n` rows of scores into weights exp(score - most), like
/// softmaxBlock(), and updates the running `most` and `sum` of each head. Sums
/// that were made with the former maxima are to be multiplied by `alpha`. All
/// arrays have room for whole vectors of heads.
template <class S>
void softmaxHeads(float *scores, int64_t stride, int64_t n, int64_t heads,
                  float cap, float *most, float *sum, float *alpha) {
  using Vec = typename S::Vec;
  constexpr float kLowest = -std::numeric_limits<float>::max();
  const Vec log2E = S::set(1.44269504f);
  for (int64_t h = 0; h < heads; h += S::kWidth) {
    float *of = scores + h;
    if (cap != 0)
      for (int64_t k = 0; k < n; ++k)
        S::store(of + k * stride, softcapped<S>(S::load(of + k * stride), cap));
    Vec next = S::load(most + h), others = next;
    int64_t k = 0;
    for (; k + 2 <= n; k += 2) {
      next = S::max(S::load(of + k * stride), next);
      others = S::max(S::load(of + (k + 1) * stride), others);
    }
    if (k < n)
      next = S::max(S::load(of + k * stride), next);
    next = S::max(others, next);
    // If all scores so far are minus infinity, any finite shift gives weights
    // of zero.
    const Vec shift = S::max(S::set(kLowest), next);
    auto weightOf = [&](Vec score) {
      return S::exp2(S::mul(S::sub(score, shift), log2E));
    };
    Vec total = S::zero();
    for (k = 0; k < n; ++k) {
      const Vec weight = weightOf(S::load(of + k * stride));
      total = S::add(total, weight);
      S::store(of + k * stride, weight);
    }
    const Vec factor = weightOf(S::load(most + h));
    S::store(alpha + h, factor);
    S::store(sum + h, S::fma(S::load(sum + h), factor, total));
    S::store(most + h, next);
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_HEADSCORES_H
