//===- Rows16Dot.h - Dot products of streamed panels ------------*- C++ -*-===//
//
// A panel's tiles are read once, in memory order: codes are unpacked in
// registers and multiplied with every token's broadcast activations. For one
// token, 32 columns of Q4_K take 12 unpacking instructions, eight vpdpbusd,
// nine for sums, scales and minima and four loads: 288 bytes in some 17 cycles.
// Those of Q2_K are 168 bytes in 18 to 21 cycles, of Q3_K 220 in 26. The limit
// is two vector instructions per cycle, a third of which handle parts of codes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_ROWS16DOT_H
#define MOE_KERNELS_CPU_AVX512_ROWS16DOT_H

#include "kernels/cpu/avx512/Rows16Tile.h"

namespace moek::avx512 {
namespace {

/// Prefetches the `Bytes` bytes that a panel's stream will read next into L2:
/// that is far ahead, and leaves L1 to the activations. Measured on two cores
/// of a Zen 4 with Q4_K and 2048 columns: with pages of 4 KiB this is 1.12
/// times as fast as prefetching 2560 bytes ahead into L1 for one token, 1.17
/// times for two, 1.23 for four; with large pages 1 to 1.05 times. A distance
/// of 5120 bytes is up to a tenth slower, 8192 a twentieth.
template <int64_t Bytes> MOE_INLINE void prefetchPanel(const uint8_t *at) {
  constexpr int64_t kAhead = 6144;
#pragma GCC unroll 10
  for (int64_t line = 0; line < Bytes; line += 64)
    prefetch<kIntoL2>(at, kAhead + line);
}

/// Adds the products of four columns, from `x` on, to `sums` in place: GCC
/// would move a sum from register to register.
MOE_INLINE void addDots(__m512i &sums, __m512i codes, const int8_t *x) {
  sums = _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(load32(x)));
  __asm__("" : "+v"(sums));
}

/// Adds codes times activations of groups [First, First + Count) to `sums`. It
/// is one dependency chain, whose latency other sub-blocks hide.
template <int First, int Count>
MOE_INLINE __m512i groupDots(__m512i sums, const __m512i *q, const int8_t *x) {
#pragma GCC unroll 8
  for (int g = First; g < First + Count; ++g)
    addDots(sums, q[g], x + 4 * g);
  return sums;
}

/// Returns four times the sum of four groups of codesByFour().
template <int First>
MOE_INLINE __m512i groupDotsByFour(__m512i sums, const __m512i *q,
                                   const int8_t *x) {
  addDots(sums, q[First], x + 4 * First);
  addDots(sums, q[First + 2], x + 4 * First + 8);
  sums = _mm512_slli_epi32(sums, 2);
  addDots(sums, q[First + 1], x + 4 * First + 4);
  addDots(sums, q[First + 3], x + 4 * First + 12);
  return sums;
}

/// The terms of a token's activations for a tile with kHasNumbers, apart from
/// products. They are in memory because broadcasts from there use no vector
/// port.
template <Format F> struct TokenSums {
  using Tile = Rows16Tile<F>;
  alignas(64) int32_t start[16]; ///< -kZero * sum of q, for each kSub columns.
  alignas(32) float scaled[8];   ///< Scale * sum of q, for each 32 columns.

  MOE_INLINE void read(const A8Row &row, int64_t block) {
    if constexpr (Tile::kCols == 64) {
      static_assert(Tile::kSub == 16 && Tile::kOffsetSub == 0);
      __m128i four = _mm_loadl_epi64(
          reinterpret_cast<const __m128i *>(row.sum + 2 * block));
      return _mm_store_si128(
          reinterpret_cast<__m128i *>(start),
          _mm_madd_epi16(_mm_cvtepi16_epi32(four),
                         _mm_set1_epi32(-Tile::kZero & 0xffff)));
    }
    __m256i sums = load256(row.sum + 2 * block);
    if constexpr (Tile::kZero != 0 && Tile::kSub == 32)
      _mm256_store_si256(
          reinterpret_cast<__m256i *>(start),
          _mm256_madd_epi16(sums, _mm256_set1_epi16(-Tile::kZero)));
    if constexpr (Tile::kZero != 0 && Tile::kSub == 16)
      _mm512_store_si512(
          start, _mm512_madd_epi16(_mm512_cvtepi16_epi32(sums),
                                   _mm512_set1_epi32(-Tile::kZero & 0xffff)));
    if constexpr (Tile::kOffsetSub == 32)
      _mm256_store_ps(scaled,
                      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(
                                        sums, _mm256_set1_epi16(1))),
                                    _mm256_loadu_ps(row.scale + block)));
  }

  MOE_INLINE __m512i starts(int i) const {
    return Tile::kZero == 0 ? _mm512_setzero_si512()
                            : _mm512_set1_epi32(start[i]);
  }
};

/// Multiplies a tile with kHasNumbers with T tokens; `block` is the index of
/// the tokens' first block of 32 columns. Numbers are applied per kSub columns,
/// d and dmin once.
template <Format F, int T>
MOE_INLINE void dotNumbers(const uint8_t *tile, const A8Row *rows,
                           int64_t block, __m512 sums[T]) {
  using Tile = Rows16Tile<F>;
  // For one token, shifting each sum costs less than shifting the codes.
  constexpr bool kByFour = Tile::kPairs && T == 1;
  typename Tile::Integers integers;
  Tile::unpack(tile, integers);
  TokenSums<F> tokens[T];
  __m512 parts[T], minima[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    tokens[t].read(rows[t], block);
    parts[t] = minima[t] = _mm512_setzero_ps();
  }
#pragma GCC unroll 1
  for (int s = 0; s < Tile::kCols / 32; ++s) {
    prefetchPanel<Tile::kPartBytes>(tile + s * Tile::kPartBytes);
    __m512i q[8];
    if constexpr (kByFour)
      Tile::codesByFour(tile, s, q);
    else
      Tile::codes(tile, s, q);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const int8_t *x = rows[t].q + 32 * (block + s);
      __m512 xScale = _mm512_set1_ps(rows[t].scale[block + s]);
      if constexpr (Tile::kSub == 32) {
        __m512i dots = groupDots<0, 8>(tokens[t].starts(s), q, x);
        parts[t] = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(dots),
            _mm512_mul_ps(Tile::number(tile, integers, s), xScale), parts[t]);
        if constexpr (Tile::kHasMinima)
          minima[t] =
              _mm512_fmadd_ps(Tile::minimum(integers, s),
                              _mm512_set1_ps(tokens[t].scaled[s]), minima[t]);
        continue;
      }
      __m512i first = tokens[t].starts(2 * s);
      __m512i second = tokens[t].starts(2 * s + 1);
      first = kByFour ? groupDotsByFour<0>(first, q, x)
                      : groupDots<0, 4>(first, q, x);
      second = kByFour ? groupDotsByFour<4>(second, q, x)
                       : groupDots<4, 4>(second, q, x);
      if constexpr (Tile::kPairs) {
        // The sums are at most 4 * 16 * 127 * 4 = 32512 (Q3_K).
        __m512i pairs = _mm512_mask_blend_epi16(0xaaaaaaaa, first,
                                                _mm512_slli_epi32(second, 16));
        __m512i dots =
            _mm512_madd_epi16(pairs, Tile::pairScales(tile, integers, s));
        parts[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), xScale, parts[t]);
      } else {
        __m512 scaled = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(second), Tile::number(tile, integers, 2 * s + 1),
            _mm512_mul_ps(_mm512_cvtepi32_ps(first),
                          Tile::number(tile, integers, 2 * s)));
        parts[t] = _mm512_fmadd_ps(scaled, xScale, parts[t]);
      }
      if constexpr (Tile::kOffsetSub == 16) {
        __m512i xPair =
            _mm512_set1_epi32(load32(rows[t].sum + 2 * (block + s)));
        minima[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_madd_epi16(
                                        Tile::pairMinima(tile, s), xPair)),
                                    xScale, minima[t]);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    __m512 d = Tile::scale(tile);
    if constexpr (kByFour)
      d = _mm512_mul_ps(d, _mm512_set1_ps(0.25f));
    sums[t] = _mm512_fmadd_ps(d, parts[t], sums[t]);
    if constexpr (Tile::kOffsetSub != 0)
      sums[t] = _mm512_fnmadd_ps(rowHalves(tile + 32), minima[t], sums[t]);
  }
}

/// Multiplies a tile of 32 columns with T tokens; `block` is the index of the
/// tokens' block.
template <Format F, int T>
MOE_INLINE void dotBlock(const uint8_t *tile, const A8Row *rows, int64_t block,
                         __m512 sums[T]) {
  using Tile = Rows16Tile<F>;
  prefetchPanel<Tile::kBytes>(tile);
  __m512 d = Tile::scale(tile);
  __m512i q[8];
  Tile::codes(tile, 0, q);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    __m512i start = _mm512_setzero_si512();
    if constexpr (Tile::kZero != 0)
      start =
          _mm512_madd_epi16(_mm512_set1_epi32(load32(rows[t].sum + 2 * block)),
                            _mm512_set1_epi16(-Tile::kZero));
    __m512 dots =
        _mm512_cvtepi32_ps(groupDots<0, 8>(start, q, rows[t].q + 32 * block));
    __m512 xScale = _mm512_set1_ps(rows[t].scale[block]);
    if constexpr (Tile::kOffsetSub != 0) {
      const int16_t *sum = rows[t].sum + 2 * block;
      __m512 xSum = _mm512_set1_ps(float(sum[0] + sum[1]));
      __m512 part =
          _mm512_fmadd_ps(rowHalves(tile + 32), xSum, _mm512_mul_ps(dots, d));
      sums[t] = _mm512_fmadd_ps(part, xScale, sums[t]);
    } else {
      sums[t] = _mm512_fmadd_ps(dots, _mm512_mul_ps(d, xScale), sums[t]);
    }
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_ROWS16DOT_H
