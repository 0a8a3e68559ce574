//===- Int8Dot.h - Dot products of streamed rows, few tokens ----*- C++ -*-===//
//
// For 1 to 4 tokens the weights are read once, at memory speed: each span of a
// row is unpacked in registers and multiplied with every token's span. A lane
// sums four neighbouring columns, so a vector of 64 columns holds two (four)
// sub-blocks in its halves (quarters), and their scales are arranged alike.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_INT8DOT_H
#define MOE_KERNELS_CPU_AVX512_INT8DOT_H

#include "kernels/cpu/avx512/Gguf.h"

namespace moek::avx512 {
namespace {

/// The operands that a span of a token's activations provides for every row.
template <class F> struct TokenSpan {
  static constexpr int kVectors = F::kSpan / 64;
  __m512i q[kVectors];
  __m512i start[F::kZero ? kVectors : 1]; ///< -kZero * q, summed for each lane.
  __m512 scale;                           ///< Factor of the row's scales.
  __m512 offset;                          ///< Factor of the row's offsets.
};

MOE_INLINE __m512i negatedLaneSums(int zero, __m512i q) {
  __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
                                     _mm512_set1_epi8(char(zero)), q);
  return _mm512_sub_epi32(_mm512_setzero_si512(), sums);
}

/// Loads columns 256 * i ... of a token.
template <class F>
MOE_INLINE TokenSpan<F> loadSpan256(const A8Row &row, int64_t i) {
  TokenSpan<F> span;
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    span.q[v] = load512(row.q + 256 * i + 64 * v);
    if constexpr (F::kZero != 0)
      span.start[v] = negatedLaneSums(F::kZero, span.q[v]);
  }
  __m256 scale = _mm256_loadu_ps(row.scale + 8 * i);
  __m512 scale16 = _mm512_permutexvar_ps(
      _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
      _mm512_castps256_ps512(scale));
  if constexpr (F::kSub == 16)
    span.scale = scale16;
  else
    span.scale = _mm512_castps256_ps512(scale);
  if constexpr (F::kOffsetSub == 32) {
    // Lanes 8..15 get the sums of 32 columns, next to the scales they belong
    // to.
    __m256i sums = _mm256_madd_epi16(load256(row.sum + 16 * i),
                                     _mm256_set1_epi16(F::kOffsetSign));
    __m256 offset = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale);
    span.scale = _mm512_insertf32x8(span.scale, offset, 1);
  }
  if constexpr (F::kOffsetSub == 16) {
    __m512i sums = _mm512_cvtepi16_epi32(load256(row.sum + 16 * i));
    if constexpr (F::kOffsetSign < 0)
      sums = _mm512_sub_epi32(_mm512_setzero_si512(), sums);
    span.offset = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale16);
  }
  return span;
}

/// Lane l of vector v of a span uses scale (64 v + 4 l) / Sub.
template <int Sub> MOE_INLINE __m512i scaleIndex(int v) {
  __m512i lanes =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_add_epi32(_mm512_srli_epi32(lanes, Sub == 32 ? 3 : 2),
                          _mm512_set1_epi32(64 / Sub * v));
}

/// Adds the products of one super-block with T tokens to sums[0..T).
template <class F, int T>
MOE_INLINE void addSpan256(const typename F::Block *block,
                           const TokenSpan<F> tokens[T], __m512 *sums) {
  __m512i q[4];
  F::codes(block, q);
  __m512 rowScale = F::scales(block);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    const TokenSpan<F> &token = tokens[t];
    __m512 scale = _mm512_mul_ps(rowScale, token.scale);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (F::kZero != 0)
        start = token.start[v];
      __m512i dot = _mm512_dpbusd_epi32(start, q[v], token.q[v]);
      sums[t] = _mm512_fmadd_ps(
          _mm512_cvtepi32_ps(dot),
          _mm512_permutexvar_ps(scaleIndex<F::kSub>(v), scale), sums[t]);
    }
    if constexpr (F::kOffsetSub == 32)
      sums[t] = _mm512_mask_add_ps(sums[t], 0xff00, sums[t], scale);
    if constexpr (F::kOffsetSub == 16)
      sums[t] = _mm512_fmadd_ps(F::offsets(block), token.offset, sums[t]);
  }
}

/// Loads columns 64 * i ... of a token; the upper half is zero if Half.
template <class F, bool Half>
MOE_INLINE TokenSpan<F> loadSpan64(const A8Row &row, int64_t i) {
  TokenSpan<F> span;
  span.q[0] = Half ? _mm512_zextsi256_si512(load256(row.q + 64 * i))
                   : load512(row.q + 64 * i);
  // The second scale of a half span multiplies only zeros, but must be finite.
  __m512i index = Half ? _mm512_setzero_si512() : scaleIndex<32>(0);
  __m128 scales =
      Half ? _mm_load_ss(row.scale + 2 * i)
           : _mm_castsi128_ps(_mm_loadl_epi64(
                 reinterpret_cast<const __m128i *>(row.scale + 2 * i)));
  span.scale = _mm512_permutexvar_ps(index, _mm512_castps128_ps512(scales));
  if constexpr (F::kZero != 0)
    span.start[0] = negatedLaneSums(F::kZero, span.q[0]);
  if constexpr (F::kOffsetSub != 0) {
    // Sums per lane, to which the offsets apply in the same arrangement as
    // scales.
    __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
                                       _mm512_set1_epi8(1), span.q[0]);
    span.offset = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), span.scale);
  }
  return span;
}

/// Returns F16 numbers of two blocks, each in its half of the lanes.
template <bool Half, class T>
MOE_INLINE __m512 spreadF16(const T &first, const T *second) {
  __m256i both = _mm256_set1_epi16(load16(first));
  if constexpr (!Half)
    both = _mm256_inserti128_si256(both, _mm_set1_epi16(load16(*second)), 1);
  return _mm512_cvtph_ps(both);
}

/// Returns the scales of two blocks, each in its half of the lanes, or of a
/// block with four scales, each in its quarter.
template <bool Half, class Block>
MOE_INLINE __m512 spreadScales(const Block *blocks) {
  if constexpr (BlockTraits<Block>::kIsFloats) {
    // The same result as that of scaleBits().
    __m128i bytes = _mm_shuffle_epi8(
        _mm_set1_epi32(load32(blocks->scales)),
        _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    __m128i bits = _mm_set1_epi8(0x7f);
    return floatScales(_mm_maskz_mov_epi8(_mm_cmpneq_epi8_mask(bytes, bits),
                                          _mm_and_si128(bytes, bits)));
  } else if constexpr (BlockTraits<Block>::kIsExponent)
    return exponents(halves32(blocks[0].d, Half ? blocks[0].d : blocks[1].d));
  else
    return spreadF16<Half>(blocks[0].d, &blocks[1].d);
}

/// Adds the products of 64 columns, or 32 if Half, with T tokens.
template <class F, int T, bool Half>
MOE_INLINE void addSpan64(const typename F::Block *block,
                          const TokenSpan<F> tokens[T], __m512 *sums) {
  static_assert(F::kOffsetSub == 0 || F::kOffsetSign == 1);
  __m512i q = F::template codes<Half>(block);
  __m512 rowScale = spreadScales<Half>(block);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    const TokenSpan<F> &token = tokens[t];
    __m512i start = _mm512_setzero_si512();
    if constexpr (F::kZero != 0)
      start = token.start[0];
    __m512i dot = _mm512_dpbusd_epi32(start, q, token.q[0]);
    sums[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                              _mm512_mul_ps(rowScale, token.scale), sums[t]);
    if constexpr (F::kOffsetSub != 0)
      sums[t] = _mm512_fmadd_ps(spreadF16<Half>(block[0].m, &block[1].m),
                                token.offset, sums[t]);
  }
}

/// Adds the products of a span of either kind.
template <class F, int R, int T, bool Half>
MOE_INLINE void addSpan(const typename F::Block *const rows[R],
                        const A8Row tokens[T], int64_t i, __m512 sums[R][T]) {
  constexpr int kBlocks = F::kSpan / F::Block::kElements;
  TokenSpan<F> spans[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    if constexpr (F::kSpan == 256)
      spans[t] = loadSpan256<F>(tokens[t], i);
    else
      spans[t] = loadSpan64<F, Half>(tokens[t], i);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    if constexpr (F::kSpan == 256)
      addSpan256<F, T>(rows[r] + i, spans, sums[r]);
    else
      addSpan64<F, T, Half>(rows[r] + i * kBlocks, spans, sums[r]);
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_INT8DOT_H
