//===- Int8Dot.h - Dot products of streamed rows, few tokens ----*- C++ -*-===//
//
// For 1 to 4 tokens the weights are read once, at memory speed. A vector holds
// 32 columns, and a lane sums four neighbouring ones, so the lower half of the
// lanes belongs to the first 16 columns.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_INT8DOT_H
#define MOE_KERNELS_CPU_LANES8_INT8DOT_H

#include "kernels/cpu/lanes8/Gguf.h"

namespace moek::MOE_ISA {
namespace {

/// Repeats each of eight numbers, one per 32 columns: one per 16 columns.
MOE_INLINE Lanes16 eachTwice(Floats v) { return {lowTwice(v), highTwice(v)}; }

/// Returns the scales of vector v of a super-block, in the lanes of their
/// columns.
template <class F> MOE_INLINE Floats spread(const Lanes16 &scales, int v) {
  if constexpr (F::kSub == 32)
    return broadcastLane(scales.low, v);
  return spreadPair(v < 4 ? scales.low : scales.high, 2 * v % 8);
}

/// Returns the row's scales times the token's, for super-block i.
template <class F>
MOE_INLINE Lanes16 productScales(const Lanes16 &row, const A8Row &token,
                                 int64_t i) {
  Floats scale = Simd::load(token.scale + 8 * i);
  if constexpr (F::kSub == 32)
    return {Simd::mul(row.low, scale), scale};
  Lanes16 twice = eachTwice(scale);
  return {Simd::mul(row.low, twice.low), Simd::mul(row.high, twice.high)};
}

/// Adds the terms of super-block i's offsets.
template <class F>
MOE_INLINE Floats addOffsets(const Lanes16 &offsets, const A8Row &token,
                             int64_t i, Floats sum) {
  Floats scale = Simd::load(token.scale + 8 * i);
  Ints sums = load256(token.sum + 16 * i);
  Ints sign = set16(F::kOffsetSign);
  if constexpr (F::kOffsetSub == 32) {
    Floats sums32 = toFloats(pairProducts(sums, sign));
    return Simd::fma(offsets.low, Simd::mul(sums32, scale), sum);
  }
  sums = mul16(sums, sign);
  Lanes16 twice = eachTwice(scale);
  Floats low = toFloats(lowWords32(sums));
  Floats high = toFloats(highWords32(sums));
  sum = Simd::fma(offsets.low, Simd::mul(low, twice.low), sum);
  return Simd::fma(offsets.high, Simd::mul(high, twice.high), sum);
}

/// Returns the terms of kZero in dots(), which all rows share: its products
/// with activations in pairs, or what sums of four begin with.
template <class F> MOE_INLINE Ints zeroTerms(Ints x) {
  Ints start = set32(kDotStart);
  Ints zeros = set8(F::kZero);
  if constexpr (F::kZero == 0)
    return start;
  else if constexpr (kHasDots)
    return sub32(start, dot4(set32(0), zeros, x));
  else
    return byteProducts(zeros, x);
}

/// Returns sums of (codes - zero point) times activations of four columns.
template <class F> MOE_INLINE Floats dots(Ints codes, Ints x, Ints zeros) {
  if constexpr (kHasDots) {
    return floats(dot4(zeros, codes, x));
  } else {
    Ints sums = products16<F>(codes, x);
    if constexpr (F::kZero != 0)
      sums = sub16(sums, zeros);
    return floats(pairSums(sums));
  }
}

template <class F, int R, int T>
MOE_INLINE void addSpan256(const typename F::Block *const rows[R],
                           const A8Row tokens[T], int64_t i,
                           Floats sums[R][T]) {
  Lanes16 scales[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    Lanes16 rowScales = F::scales(rows[r] + i);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      scales[r][t] = productScales<F>(rowScales, tokens[t], i);
    if constexpr (F::kOffsetSub != 0) {
      Lanes16 offsets = F::offsets(rows[r] + i);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sums[r][t] = addOffsets<F>(offsets, tokens[t], i, sums[r][t]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    Ints codes[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      codes[r] = F::codes(rows[r] + i, v);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      Ints x = load256(tokens[t].q + 256 * i + 32 * v);
      Ints zeros = zeroTerms<F>(x);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][t] = Simd::fma(dots<F>(codes[r], x, zeros),
                               spread<F>(scales[r][t], v), sums[r][t]);
    }
  }
}

template <class F, int R, int T>
MOE_INLINE void addSpan32(const typename F::Block *const rows[R],
                          const A8Row tokens[T], int64_t i, Floats sums[R][T]) {
  static_assert(F::kOffsetSub == 0 || F::kOffsetSign == 1);
  Ints codes[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    codes[r] = F::codes(rows[r] + i, 0);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    Ints x = load256(tokens[t].q + 32 * i);
    Ints zeros = zeroTerms<F>(x);
    Floats scale = Simd::set(tokens[t].scale[i]);
    Floats laneSums = Simd::zero();
    if constexpr (F::kOffsetSub != 0)
      laneSums = Simd::mul(scale, toFloats(dot4(set32(0), set8(1), x)));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sums[r][t] =
          Simd::fma(dots<F>(codes[r], x, zeros),
                    Simd::mul(broadcastScale(rows[r][i]), scale), sums[r][t]);
      if constexpr (F::kOffsetSub != 0)
        sums[r][t] =
            Simd::fma(broadcastF16(rows[r][i].m), laneSums, sums[r][t]);
    }
  }
}

/// Blocks of 64 columns with ScaleCode::Floats.
template <class F, int R, int T>
MOE_INLINE void addSpan64(const typename F::Block *const rows[R],
                          const A8Row tokens[T], int64_t i, Floats sums[R][T]) {
  static_assert(F::kOffsetSub == 0);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    Ints codes[R];
    Floats scales[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      codes[r] = F::codes(rows[r] + i, v);
      scales[r] = F::scales(rows[r] + i, v);
    }
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      Ints x = load256(tokens[t].q + 64 * i + 32 * v);
      Ints zeros = zeroTerms<F>(x);
      Floats scale = Simd::set(tokens[t].scale[2 * i + v]);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][t] = Simd::fma(dots<F>(codes[r], x, zeros),
                               Simd::mul(scales[r], scale), sums[r][t]);
    }
  }
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_INT8DOT_H
