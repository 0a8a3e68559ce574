//===- Int8Dequant.h - Converts codes and scales to floats ------*- C++ -*-===//
//
// One multiply-add per 16 elements: w = scale * code + base with base =
// kOffsetSign * offset - kZero * scale, once per sub-block. Codes and scales
// pass through 384 bytes of stack, from where a load widens or broadcasts them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_INT8DEQUANT_H
#define MOE_KERNELS_CPU_AVX512_INT8DEQUANT_H

#include "kernels/cpu/avx512/Int8Dot.h"

namespace moek::avx512 {
namespace {

/// Converts columns 16 i .. 16 i + 15 of unpacked codes.
MOE_INLINE __m512 widenCodes(const uint8_t *codes, int i) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load128(codes + 16 * i)));
}

template <class F>
MOE_INLINE void dequantizeSuperBlock(const typename F::Block *block,
                                     float *out) {
  alignas(64) uint8_t codes[256];
  alignas(64) float scales[16], bases[16];
  __m512i q[4];
  F::codes(block, q);
  for (int v = 0; v < 4; ++v)
    _mm512_store_si512(codes + 64 * v, q[v]);
  __m512 scale = F::scales(block);
  _mm512_store_ps(scales, scale);
  // There is one base per 16 columns, or per 32 columns in lanes 0..7.
  constexpr bool kFine = F::kSub == 16 || F::kOffsetSub == 16;
  __m512 offset = _mm512_setzero_ps();
  if constexpr (F::kOffsetSub == 16)
    offset = F::offsets(block);
  else if constexpr (F::kOffsetSub == 32)
    offset = _mm512_shuffle_f32x4(scale, scale,
                                  0xee); // The upper lanes 8..15 come first.
  static_assert(F::kOffsetSub != 32 || F::kSub == 32);
  if constexpr (kFine && F::kSub == 32)
    scale = _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
        scale);
  __m512 zero = _mm512_set1_ps(float(F::kZero));
  _mm512_store_ps(bases, F::kOffsetSign > 0
                             ? _mm512_fnmadd_ps(zero, scale, offset)
                             : _mm512_fnmsub_ps(zero, scale, offset));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    _mm512_storeu_ps(out + 16 * i,
                     _mm512_fmadd_ps(widenCodes(codes, i),
                                     _mm512_set1_ps(scales[i * 16 / F::kSub]),
                                     _mm512_set1_ps(bases[kFine ? i : i / 2])));
}

/// Converts a block of 64 columns with ScaleCode::Floats.
template <class F>
MOE_INLINE void dequantizeFloatsBlock(const typename F::Block *block,
                                      float *out) {
  alignas(64) uint8_t codes[64];
  alignas(64) float scales[16];
  _mm512_store_si512(codes, F::template codes<false>(block));
  _mm512_store_ps(scales, spreadScales<false>(block));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m512 scale = _mm512_set1_ps(scales[4 * i]);
    _mm512_storeu_ps(
        out + 16 * i,
        _mm512_fmsub_ps(widenCodes(codes, i), scale,
                        _mm512_mul_ps(_mm512_set1_ps(float(F::kZero)), scale)));
  }
}

/// Converts one block of 32, or two if not Half.
template <class F, bool Half>
MOE_INLINE void dequantizeSmallBlocks(const typename F::Block *block,
                                      float *out) {
  alignas(64) uint8_t codes[64];
  _mm512_store_si512(codes, F::template codes<Half>(block));
#pragma GCC unroll 2
  for (int b = 0; b < (Half ? 1 : 2); ++b) {
    __m512 scale = broadcastScale(block[b]), offset = _mm512_setzero_ps();
    if constexpr (F::kOffsetSub != 0)
      offset = broadcastF16(block[b].m);
    __m512 base =
        _mm512_fnmadd_ps(_mm512_set1_ps(float(F::kZero)), scale, offset);
    for (int i = 2 * b; i < 2 * b + 2; ++i)
      _mm512_storeu_ps(out + 16 * i,
                       _mm512_fmadd_ps(widenCodes(codes, i), scale, base));
  }
}

template <class F>
MOE_INLINE void dequantizeBlocks(const uint8_t *row, int64_t cols, float *out) {
  auto *blocks = reinterpret_cast<const typename F::Block *>(row);
  if constexpr (F::kSpan == 256) {
    for (int64_t c = 0; c < cols; c += 256)
      dequantizeSuperBlock<F>(blocks + c / 256, out + c);
  } else if constexpr (F::kSpan == F::Block::kElements) {
    for (int64_t c = 0; c < cols; c += 64)
      dequantizeFloatsBlock<F>(blocks + c / 64, out + c);
  } else {
    static_assert(F::kOffsetSign > 0);
    int64_t c = 0;
    for (; c + 64 <= cols; c += 64)
      dequantizeSmallBlocks<F, false>(blocks + c / 32, out + c);
    if (c < cols)
      dequantizeSmallBlocks<F, true>(blocks + c / 32, out + c);
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_INT8DEQUANT_H
