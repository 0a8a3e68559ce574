//===- Blocks.h - The two small matrix products of attention ----*- C++ -*-===//
//
// dotRows:  out[i][j] = scale * sum over d of a[i][d] * b[j][d]
// sumRows:  out[i][j] = start + sum over k of p[i][k] * v[k][j]
//
// Both hold their sums in registers: with AVX-512 a block of 4 x 4 of the 32,
// so that 16 multiply-adds need 8 loads; with AVX2 blocks of 2 x 4 and 6 x 2 of
// the 16, 12 multiply-adds for 8 loads. The value of an element does not depend
// on its place in a block, so that results are the same for any number of
// workers.
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

/// Returns how many rows of `stride` floats take half of an L1 cache of 32 KiB,
/// a multiple of four.
MOE_INLINE int64_t rowsInL1(int64_t stride) {
  const int64_t rows = (int64_t(16) << 10) / (stride * int64_t(sizeof(float)));
  return rows < 4 ? 4 : rows / 4 * 4;
}

/// The work between products of other rows: none.
struct NothingAhead {
  /// Says how often next() will be called.
  MOE_INLINE void divide(int64_t) {}
  /// Does the next part of the work: none.
  MOE_INLINE void next() {}
};

/// Calls body(row) for each of `rows` rows, evenly spread over the calls of
/// next(), so that memory is read while multiply-adds run.
template <class Body> class RowsAhead {
public:
  MOE_INLINE RowsAhead(int64_t rows, Body body) : rows(rows), body(body) {}

  MOE_INLINE void divide(int64_t count) { calls = count > 0 ? count : 1; }
  MOE_INLINE void next() {
    for (due += rows; due >= calls && row < rows; due -= calls)
      body(row++);
  }

private:
  int64_t rows, row = 0, calls = 1, due = 0;
  Body body;
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
  if constexpr (C == 4)
    S::reduceAdd4(sum, scale, out, outStride);
  else
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        out[r * outStride + c] = float(S::reduceAdd(sum[r][c]) * scale);
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
  // All rows of `a` meet a few of `b` while these are in L1.
  const int64_t each = rowsInL1(b.stride);
  for (int64_t j = 0; j < n; j += each) {
    const int64_t count = n - j < each ? n - j : each;
    const Rows some{b.data + j * b.stride, b.stride};
    int64_t i = 0;
    for (; i + R <= m; i += R)
      dotStrip<S, R>({a.data + i * a.stride, a.stride}, some, count, dim, scale,
                     out + i * outStride + j, outStride);
    for (; i < m; ++i)
      dotStrip<S, 1>({a.data + i * a.stride, a.stride}, some, count, dim, scale,
                     out + i * outStride + j, outStride);
  }
}

/// A float matrix whose columns are `stride` elements apart.
struct Columns {
  const float *data;
  int64_t stride;
};
MOE_INLINE float elementOf(Rows m, int64_t row, int64_t column) {
  return m.data[row * m.stride + column];
}
MOE_INLINE float elementOf(Columns m, int64_t row, int64_t column) {
  return m.data[column * m.stride + row];
}
MOE_INLINE Rows rowsFrom(Rows m, int64_t row) {
  return {m.data + row * m.stride, m.stride};
}
MOE_INLINE Columns rowsFrom(Columns m, int64_t row) {
  return {m.data + row, m.stride};
}

/// Columns that sumRows() takes at once.
template <class S> inline constexpr int64_t kPanel = S::kSumVecs *S::kWidth;

/// A float matrix in panels of kPanel columns, each of `rows` rows that follow
/// each other. Rows that are a power of two apart, as those of a whole matrix
/// often are, take few sets of L1 and push each other out of it.
struct Panels {
  const float *data;
  int64_t rows;
};
template <class S> MOE_INLINE Rows panelAt(Rows m, int64_t column) {
  return {m.data + column, m.stride};
}
template <class S> MOE_INLINE Rows panelAt(Panels m, int64_t column) {
  return {m.data + column / kPanel<S> * m.rows * kPanel<S> + column % kPanel<S>,
          kPanel<S>};
}
template <class S> MOE_INLINE Rows rowsBehind(Rows m, int64_t row) {
  return {m.data + row * m.stride, m.stride};
}
template <class S> MOE_INLINE Panels rowsBehind(Panels m, int64_t row) {
  return {m.data + row * kPanel<S>, m.rows};
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

template <class S, int R, int C, class P, class Lanes>
MOE_INLINE void sumBlock(P p, Start start, Rows v, int64_t n, float *out,
                         int64_t outStride, Lanes lanes) {
  using Vec = typename S::Vec;
  Vec sum[R][C];
#pragma GCC unroll 8
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
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Vec pv = S::set(elementOf(p, r, k));
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[r][c] = S::fma(pv, vv[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      lanes.store(out + r * outStride + c * S::kWidth, sum[r][c]);
}

/// A strip of `rows` rows, at most R of them, and C vectors.
template <class S, int R, int C, class P, class Lanes>
MOE_INLINE void sumRest(int64_t rows, P p, Start start, Rows v, int64_t n,
                        float *out, int64_t outStride, Lanes lanes) {
  if constexpr (R > 0) {
    if (rows == R)
      sumBlock<S, R, C>(p, start, v, n, out, outStride, lanes);
    else
      sumRest<S, R - 1, C>(rows, p, start, v, n, out, outStride, lanes);
  }
}

/// All rows of C vectors of columns, which stay in L1 meanwhile. Strips are as
/// even as possible: two of 4 rows hide the latency of multiply-adds better
/// than 6 and 2.
template <class S, int C, class P, class Lanes, class Ahead>
MOE_INLINE void sumColumns(P p, int64_t m, Start start, Rows v, int64_t n,
                           float *out, int64_t outStride, Lanes lanes,
                           Ahead &ahead) {
  constexpr int R = S::kSumRows;
  int64_t strips = (m + R - 1) / R;
  for (int64_t i = 0, rows; i < m; i += rows, --strips) {
    rows = (m - i + strips - 1) / strips;
    sumRest<S, R, C>(rows, rowsFrom(p, i), start.from(i), v, n,
                     out + i * outStride, outStride, lanes);
    ahead.next();
  }
}

/// p: [m, n], v: [n, cols], out: [m, cols]. P is Rows or Columns, V Rows or
/// Panels. ahead.next() is called between products.
template <class S, class P, class V = Rows, class Ahead = NothingAhead>
void sumRows(P p, int64_t m, Start start, V v, int64_t n, int64_t cols,
             float *out, int64_t outStride, Ahead ahead = {}) {
  constexpr int64_t kRows = S::kSumRows;
  ahead.divide((m + kRows - 1) / kRows * (cols / kPanel<S>));
  int64_t j = 0;
  for (; j + kPanel<S> <= cols; j += kPanel<S>)
    sumColumns<S, S::kSumVecs>(p, m, start, panelAt<S>(v, j), n, out + j,
                               outStride, WholeLanes<S>(), ahead);
  forVectors<S>(j, cols, [&](int64_t i, auto lanes) {
    sumColumns<S, 1>(p, m, start, panelAt<S>(v, i), n, out + i, outStride,
                     lanes, ahead);
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_BLOCKS_H
