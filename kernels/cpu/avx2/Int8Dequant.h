//===- Int8Dequant.h - Converts codes and scales to floats ------*- C++ -*-===//
//
// One multiply-add per 8 elements: w = scale * code + base with base =
// kOffsetSign * offset - kZero * scale, once per sub-block. Codes and scales
// pass through the stack, from where a load widens or broadcasts them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_INT8DEQUANT_H
#define MOE_KERNELS_CPU_AVX2_INT8DEQUANT_H

#include "kernels/cpu/avx2/Gguf.h"

namespace moek::MOE_ISA {
namespace {

/// Converts columns 8 i .. 8 i + 7 of 32 unpacked codes.
template <class F> MOE_INLINE __m256 widenCodes(const uint8_t *codes, int i) {
  __m128i bytes = _mm_loadl_epi64((const __m128i *)(codes + 8 * i));
  return _mm256_cvtepi32_ps(F::kMaxCode == 0 ? _mm256_cvtepi8_epi32(bytes)
                                             : _mm256_cvtepu8_epi32(bytes));
}

/// Returns kOffsetSign * offset - kZero * scale.
template <class F> MOE_INLINE __m256 baseOf(__m256 scale, __m256 offset) {
  __m256 zero = _mm256_set1_ps(float(F::kZero));
  return F::kOffsetSign > 0 ? _mm256_fnmadd_ps(zero, scale, offset)
                            : _mm256_fnmsub_ps(zero, scale, offset);
}

template <class F>
MOE_INLINE void dequantizeSuperBlock(const typename F::Block *block,
                                     float *out) {
  alignas(32) float scales[16], bases[16];
  Lanes16 scale = F::scales(block);
  _mm256_store_ps(scales, scale.low);
  _mm256_store_ps(scales + 8, scale.high);
  Lanes16 offset{_mm256_setzero_ps(), _mm256_setzero_ps()};
  if constexpr (F::kOffsetSub != 0)
    offset = F::offsets(block);
  static_assert(F::kOffsetSub == 0 || F::kOffsetSub == F::kSub);
  _mm256_store_ps(bases, baseOf<F>(scale.low, offset.low));
  _mm256_store_ps(bases + 8, baseOf<F>(scale.high, offset.high));
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    alignas(32) uint8_t codes[32];
    _mm256_store_si256((__m256i *)codes, F::codes(block, v));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      int s = (32 * v + 8 * i) / F::kSub;
      _mm256_storeu_ps(out + 32 * v + 8 * i,
                       _mm256_fmadd_ps(widenCodes<F>(codes, i),
                                       _mm256_set1_ps(scales[s]),
                                       _mm256_set1_ps(bases[s])));
    }
  }
}

/// Converts a block of 64 columns with ScaleCode::Floats.
template <class F>
MOE_INLINE void dequantizeFloatsBlock(const typename F::Block *block,
                                      float *out) {
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    alignas(32) uint8_t codes[32];
    alignas(32) float scales[8];
    _mm256_store_si256((__m256i *)codes, F::codes(block, v));
    _mm256_store_ps(scales, F::scales(block, v));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m256 scale = _mm256_set1_ps(scales[i / 2 * 4]);
      _mm256_storeu_ps(out + 32 * v + 8 * i,
                       _mm256_fmadd_ps(widenCodes<F>(codes, i), scale,
                                       baseOf<F>(scale, _mm256_setzero_ps())));
    }
  }
}

template <class F>
MOE_INLINE void dequantizeSmallBlock(const typename F::Block *block,
                                     float *out) {
  alignas(32) uint8_t codes[32];
  _mm256_store_si256((__m256i *)codes, F::codes(block, 0));
  __m256 scale = broadcastScale(*block), offset = _mm256_setzero_ps();
  if constexpr (F::kOffsetSub != 0)
    offset = broadcastF16(block->m);
  __m256 base = baseOf<F>(scale, offset);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    _mm256_storeu_ps(out + 8 * i,
                     _mm256_fmadd_ps(widenCodes<F>(codes, i), scale, base));
}

template <class F>
MOE_INLINE void dequantizeBlocks(const uint8_t *row, int64_t cols, float *out) {
  auto *blocks = reinterpret_cast<const typename F::Block *>(row);
  for (int64_t c = 0; c < cols; c += F::kSpan)
    if constexpr (F::kSpan == 256)
      dequantizeSuperBlock<F>(blocks + c / 256, out + c);
    else if constexpr (F::kSpan == 64)
      dequantizeFloatsBlock<F>(blocks + c / 64, out + c);
    else
      dequantizeSmallBlock<F>(blocks + c / 32, out + c);
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_INT8DEQUANT_H
