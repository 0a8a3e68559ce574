//===- Blocks.h - The two small matrix products of attention ----*- C++ -*-===//
//
// dotRows:  out[i][j] = scale * sum over d of a[i][d] * b[j][d]
// sumRows:  out[i][j] = start + sum over k of p[i][k] * v[k][j]
//
// Both hold their sums in registers: with AVX-512 a block of 4 x 4 of the 32,
// so that 16 multiply-adds need 8 loads; with AVX2 blocks of 2 x 4 and 4 x 2 of
// the 16. The value of an element does not depend on its place in a block, so
// that results are the same for any number of workers.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_BLOCKS_H
#define MOE_KERNELS_CPU_BLOCKS_H

#include "kernels/cpu/Simd.h"

namespace moek {

/// A float matrix whose rows are `stride` elements apart.
struct Rows {
  const float *data;
  int64_t stride;
};

template <class S, int R, int C>
MOE_INLINE void dotBlock(Rows a, Rows b, int64_t dim, float scale, float *out,
                         int64_t outStride) {
  using Vec = typename S::Vec;
  Vec sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] = S::zero();
  forVectors<S>(0, dim, [&](int64_t d, auto lanes) {
    Vec bv[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      bv[c] = lanes.load(b.data + c * b.stride + d);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      Vec av = lanes.load(a.data + r * a.stride + d);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[r][c] = S::fma(av, bv[c], sum[r][c]);
    }
  });
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    if constexpr (C == 4) {
      S::reduceAdd4(sum[r], scale, out + r * outStride);
    } else {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        out[r * outStride + c] = float(S::reduceAdd(sum[r][c]) * scale);
    }
  }
}

template <class S, int R>
MOE_INLINE void dotStrip(Rows a, Rows b, int64_t n, int64_t dim, float scale,
                         float *out, int64_t outStride) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    dotBlock<S, R, 4>(a, {b.data + j * b.stride, b.stride}, dim, scale, out + j,
                      outStride);
  for (; j < n; ++j)
    dotBlock<S, R, 1>(a, {b.data + j * b.stride, b.stride}, dim, scale, out + j,
                      outStride);
}

/// a: [m, dim], b: [n, dim], out: [m, n].
template <class S>
void dotRows(Rows a, int64_t m, Rows b, int64_t n, int64_t dim, float scale,
             float *out, int64_t outStride) {
  constexpr int R = S::kDotRows;
  int64_t i = 0;
  for (; i + R <= m; i += R)
    dotStrip<S, R>({a.data + i * a.stride, a.stride}, b, n, dim, scale,
                   out + i * outStride, outStride);
  for (; i < m; ++i)
    dotStrip<S, 1>({a.data + i * a.stride, a.stride}, b, n, dim, scale,
                   out + i * outStride, outStride);
}

/// The initial value of a row's sum: zero, out, or out * alpha[row].
struct Start {
  bool fresh;
  const float *alpha = nullptr;

  MOE_INLINE Start from(int64_t row) const {
    return {fresh, alpha ? alpha + row : nullptr};
  }
  template <class S, class Lanes>
  MOE_INLINE typename S::Vec at(int row, const float *out, Lanes lanes) const {
    if (fresh)
      return S::zero();
    return alpha ? S::mul(S::set(alpha[row]), lanes.load(out))
                 : lanes.load(out);
  }
};

template <class S, int R, int C, class Lanes>
MOE_INLINE void sumBlock(Rows p, Start start, Rows v, int64_t n, float *out,
                         int64_t outStride, Lanes lanes) {
  using Vec = typename S::Vec;
  Vec sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] =
          start.template at<S>(r, out + r * outStride + c * S::kWidth, lanes);
  for (int64_t k = 0; k < n; ++k) {
    Vec vv[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      vv[c] = lanes.load(v.data + k * v.stride + c * S::kWidth);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      Vec pv = S::set(p.data[r * p.stride + k]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[r][c] = S::fma(pv, vv[c], sum[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      lanes.store(out + r * outStride + c * S::kWidth, sum[r][c]);
}

template <class S, int R>
MOE_INLINE void sumStrip(Rows p, Start start, Rows v, int64_t n, int64_t cols,
                         float *out, int64_t outStride) {
  constexpr int64_t kBlock = S::kSumVecs * S::kWidth;
  int64_t j = 0;
  for (; j + kBlock <= cols; j += kBlock)
    sumBlock<S, R, S::kSumVecs>(p, start, {v.data + j, v.stride}, n, out + j,
                                outStride, WholeLanes<S>());
  forVectors<S>(j, cols, [&](int64_t i, auto lanes) {
    sumBlock<S, R, 1>(p, start, {v.data + i, v.stride}, n, out + i, outStride,
                      lanes);
  });
}

/// A strip of `rows` rows, at most R of them.
template <class S, int R>
MOE_INLINE void sumRest(int64_t rows, Rows p, Start start, Rows v, int64_t n,
                        int64_t cols, float *out, int64_t outStride) {
  if constexpr (R > 0) {
    if (rows == R)
      sumStrip<S, R>(p, start, v, n, cols, out, outStride);
    else
      sumRest<S, R - 1>(rows, p, start, v, n, cols, out, outStride);
  }
}

/// p: [m, n], v: [n, cols], out: [m, cols].
template <class S>
void sumRows(Rows p, int64_t m, Start start, Rows v, int64_t n, int64_t cols,
             float *out, int64_t outStride) {
  constexpr int R = S::kSumRows;
  for (int64_t i = 0; i < m; i += R)
    sumRest<S, R>(m - i < R ? m - i : R, {p.data + i * p.stride, p.stride},
                  start.from(i), v, n, cols, out + i * outStride, outStride);
}

} // namespace moek

#endif // MOE_KERNELS_CPU_BLOCKS_H
