//===- Int8Dequant.h - Converts codes and scales to floats ------*- C++ -*-===//
//
// One multiply-add per 8 elements: w = scale * code + base with base =
// kOffsetSign * offset - kZero * scale, once per sub-block. Codes and scales
// pass through the stack, from where a load widens or broadcasts them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_INT8DEQUANT_H
#define MOE_KERNELS_CPU_LANES8_INT8DEQUANT_H

#include "kernels/cpu/lanes8/Gguf.h"

namespace moek::MOE_ISA {
namespace {

/// Converts columns 8 i .. 8 i + 7 of 32 unpacked codes.
template <class F> MOE_INLINE Floats widenCodes(const uint8_t *codes, int i) {
  Bytes16 bytes = load64(codes + 8 * i);
  return toFloats(F::kMaxCode == 0 ? signed32(bytes) : unsigned32(bytes));
}

/// Returns kOffsetSign * offset - kZero * scale.
template <class F> MOE_INLINE Floats baseOf(Floats scale, Floats offset) {
  Floats zero = Simd::set(float(F::kZero));
  return F::kOffsetSign > 0 ? Simd::fnma(zero, scale, offset)
                            : negatedFma(zero, scale, offset);
}

template <class F>
MOE_INLINE void dequantizeSuperBlock(const typename F::Block *block,
                                     float *out) {
  alignas(32) float scales[16], bases[16];
  Lanes16 scale = F::scales(block);
  Simd::store(scales, scale.low);
  Simd::store(scales + 8, scale.high);
  Lanes16 offset{Simd::zero(), Simd::zero()};
  if constexpr (F::kOffsetSub != 0)
    offset = F::offsets(block);
  static_assert(F::kOffsetSub == 0 || F::kOffsetSub == F::kSub);
  Simd::store(bases, baseOf<F>(scale.low, offset.low));
  Simd::store(bases + 8, baseOf<F>(scale.high, offset.high));
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    alignas(32) uint8_t codes[32];
    store(codes, F::codes(block, v));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      int s = (32 * v + 8 * i) / F::kSub;
      Simd::store(out + 32 * v + 8 * i,
                  Simd::fma(widenCodes<F>(codes, i), Simd::set(scales[s]),
                            Simd::set(bases[s])));
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
    store(codes, F::codes(block, v));
    Simd::store(scales, F::scales(block, v));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      Floats scale = Simd::set(scales[i / 2 * 4]);
      Simd::store(out + 32 * v + 8 * i,
                  Simd::fma(widenCodes<F>(codes, i), scale,
                            baseOf<F>(scale, Simd::zero())));
    }
  }
}

template <class F>
MOE_INLINE void dequantizeSmallBlock(const typename F::Block *block,
                                     float *out) {
  alignas(32) uint8_t codes[32];
  store(codes, F::codes(block, 0));
  Floats scale = broadcastScale(*block), offset = Simd::zero();
  if constexpr (F::kOffsetSub != 0)
    offset = broadcastF16(block->m);
  Floats base = baseOf<F>(scale, offset);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    Simd::store(out + 8 * i, Simd::fma(widenCodes<F>(codes, i), scale, base));
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

#endif // MOE_KERNELS_CPU_LANES8_INT8DEQUANT_H
