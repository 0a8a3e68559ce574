//===- Simd.h - The NEON trait: eight lanes in two registers ----*- C++ -*-===//
//
// NEON has 32 registers of four floats. Taken in pairs they are AVX2's 16
// registers of eight, so that the register blocks, the gemms (cpu/lanes8) and
// the order of all additions are AVX2's, and results have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_NEON_SIMD_H
#define MOE_KERNELS_CPU_NEON_SIMD_H

#include "kernels/cpu/Simd.h"

#include <arm_neon.h>

namespace moek::MOE_ISA {

/// One function per format that converts `cols` elements of a row (whole
/// blocks) to floats at `out`.
struct Dequant {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static void name(const uint8_t *row, int64_t cols, float *out);
#include "kernels/quant/Formats.def"
};

struct Floats {
  float32x4_t low, high;
};

struct Simd {
  using Vec = Floats;
  using Num = float;
  using Dequant = MOE_ISA::Dequant;
  static constexpr int kWidth = 8;
  static constexpr int kDotRows = 2, kSumRows = 4, kSumVecs = 2;
  static constexpr int kDotHeads = 4, kDotKeys = 3; ///< 16 pairs of registers.
  static constexpr int kFloatTokens = 2; ///< 16 sums in 32 registers.

  MOE_INLINE static Vec zero() { return set(0); }
  MOE_INLINE static Vec set(float x) {
    return {vdupq_n_f32(x), vdupq_n_f32(x)};
  }
  MOE_INLINE static Vec load(const float *p) {
    return {vld1q_f32(p), vld1q_f32(p + 4)};
  }
  MOE_INLINE static Vec loadPart(const float *p, int lanes) {
    float part[kWidth] = {};
    // GCC cannot know that there are at most kWidth.
    std::memcpy(part, p,
                size_t(lanes < kWidth ? lanes : kWidth) * sizeof(float));
    return load(part);
  }
  MOE_INLINE static void store(float *p, Vec v) {
    vst1q_f32(p, v.low);
    vst1q_f32(p + 4, v.high);
  }
  MOE_INLINE static void storePart(float *p, Vec v, int lanes) {
    float part[kWidth];
    store(part, v);
    std::memcpy(p, part, size_t(lanes) * sizeof(float));
  }
  /// Stores the first `count` lanes: all if it is 8 or more, none if 0 or less.
  MOE_INLINE static void storeFirst(float *p, Vec v, int64_t count) {
    if (count >= kWidth)
      store(p, v);
    else if (count > 0)
      storePart(p, v, int(count));
  }
  MOE_INLINE static Vec loadF16(const uint8_t *p) {
    return halves(vld1q_u8(p));
  }
  MOE_INLINE static Vec halves(uint8x16_t bits) {
    float16x8_t numbers = vreinterpretq_f16_u8(bits);
    return {vcvt_f32_f16(vget_low_f16(numbers)), vcvt_high_f32_f16(numbers)};
  }
  MOE_INLINE static void storeF16(uint8_t *p, Vec v) {
    vst1q_u8(p, vreinterpretq_u8_f16(
                    vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high)));
  }
  MOE_INLINE static Vec loadBf16(const uint8_t *p) {
    uint16x8_t bits = vreinterpretq_u16_u8(vld1q_u8(p));
    return {
        vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
        vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16)),
    };
  }
  /// Rounds to nearest even; a NaN keeps its upper half and becomes quiet.
  MOE_INLINE static void storeBf16(uint8_t *p, Vec v) {
    auto upper = [](float32x4_t x) {
      uint32x4_t bits = vreinterpretq_u32_f32(x);
      uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
      uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
      uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
      return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
    };
    vst1q_u8(p,
             vreinterpretq_u8_u16(vcombine_u16(upper(v.low), upper(v.high))));
  }

  MOE_INLINE static Vec add(Vec a, Vec b) {
    return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
  }
  MOE_INLINE static Vec sub(Vec a, Vec b) {
    return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
  }
  MOE_INLINE static Vec mul(Vec a, Vec b) {
    return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
  }
  MOE_INLINE static Vec div(Vec a, Vec b) {
    return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
  }
  MOE_INLINE static Vec fma(Vec a, Vec b, Vec c) {
    return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
  }
  MOE_INLINE static Vec fnma(Vec a, Vec b, Vec c) {
    return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
  }
  /// The result is that of AVX2: the second operand if either is NaN, where
  /// NEON's own instructions return the NaN.
  MOE_INLINE static float32x4_t max4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
  }
  MOE_INLINE static Vec max(Vec a, Vec b) {
    return {max4(a.low, b.low), max4(a.high, b.high)};
  }
  MOE_INLINE static Vec min(Vec a, Vec b) {
    return {vbslq_f32(vcltq_f32(a.low, b.low), a.low, b.low),
            vbslq_f32(vcltq_f32(a.high, b.high), a.high, b.high)};
  }
  MOE_INLINE static Vec round(Vec x) {
    return {vrndnq_f32(x.low), vrndnq_f32(x.high)};
  }
  /// Keeps a value in its registers.
  MOE_INLINE static void pin(Vec &v) {
    __asm__("" : "+w"(v.low), "+w"(v.high));
  }

  /// Multiplies by 2^n in two factors, because n exceeds a float's exponent
  /// range.
  MOE_INLINE static Vec scale(Vec p, Vec n) {
    return {scale4(p.low, n.low), scale4(p.high, n.high)};
  }
  MOE_INLINE static Vec exp(Vec x) { return expOf<Simd>(x); }
  /// See avx2/Simd.h.
  MOE_INLINE static Vec powerOf(Vec bits) {
    auto shifted = [](float32x4_t x) {
      return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 23));
    };
    return {shifted(bits.low), shifted(bits.high)};
  }
  MOE_INLINE static Vec exp2(Vec x) { return exp2Of<Simd>(x); }

  /// Adds lanes i and i + 4 to four partial sums.
  MOE_INLINE static float32x4_t fold(Vec v) { return vaddq_f32(v.low, v.high); }
  /// Adds the partial sums as (0 + 1) + (2 + 3).
  MOE_INLINE static float reduceAdd(Vec v) { return vaddvq_f32(fold(v)); }
  MOE_INLINE static void reduceAdd4(const Vec (&v)[4], float scale,
                                    float *out) {
    float32x4_t s = vpaddq_f32(vpaddq_f32(fold(v[0]), fold(v[1])),
                               vpaddq_f32(fold(v[2]), fold(v[3])));
    vst1q_f32(out, vmulq_n_f32(s, scale));
  }
  /// Row r of `v` gives four sums at out + r * stride.
  template <int R>
  MOE_INLINE static void reduceAdd4(const Vec (&v)[R][4], float scale,
                                    float *out, int64_t stride) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      reduceAdd4(v[r], scale, out + r * stride);
  }
  /// Writes scale times four rows of four floats as columns.
  MOE_INLINE static void transpose4(const float *from, int64_t stride,
                                    float scale, float *to, int64_t toStride) {
    float32x4_t rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      rows[i] = vmulq_n_f32(vld1q_f32(from + i * stride), scale);
    const float32x4_t even = vzip1q_f32(rows[0], rows[2]),
                      odd = vzip1q_f32(rows[1], rows[3]),
                      evenHigh = vzip2q_f32(rows[0], rows[2]),
                      oddHigh = vzip2q_f32(rows[1], rows[3]);
    vst1q_f32(to, vzip1q_f32(even, odd));
    vst1q_f32(to + toStride, vzip2q_f32(even, odd));
    vst1q_f32(to + 2 * toStride, vzip1q_f32(evenHigh, oddHigh));
    vst1q_f32(to + 3 * toStride, vzip2q_f32(evenHigh, oddHigh));
  }
  /// Adds them as (0 + 2) + (1 + 3), as AVX2 does.
  MOE_INLINE static float sumOfLanes(Vec v) {
    float32x4_t s = fold(v);
    float32x2_t pair = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
  }
  MOE_INLINE static float reduceMax(Vec v) {
    float32x4_t m = max4(v.low, v.high);
    m = max4(m, vextq_f32(m, m, 2));
    return vgetq_lane_f32(max4(m, vdupq_laneq_f32(m, 1)), 0);
  }

  /// Returns p[0] p[0] p[1] p[1] ...
  MOE_INLINE static Vec dupPairs(const float *p) {
    float32x4_t v = vld1q_f32(p);
    return {vzip1q_f32(v, v), vzip2q_f32(v, v)};
  }
  MOE_INLINE static Vec swapPairs(Vec v) {
    return {vrev64q_f32(v.low), vrev64q_f32(v.high)};
  }
  /// Computes a * b - c in even lanes and a * b + c in odd ones.
  MOE_INLINE static Vec fmaAlternate(Vec a, Vec b, Vec c) {
    uint32x4_t even = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000));
    auto alternate = [&](float32x4_t x) {
      return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), even));
    };
    return fma(a, b, {alternate(c.low), alternate(c.high)});
  }

  /// See quantizeBlocks in cpu/Elementwise.h.
  MOE_INLINE static float maxAbs32(const float *x, bool &finite) {
    float32x4_t big = vdupq_n_f32(__builtin_inff()), most = vdupq_n_f32(0);
    uint32x4_t ok = vdupq_n_u32(~0u);
    for (int i = 0; i < 8; ++i) {
      float32x4_t a = vabsq_f32(vld1q_f32(x + 4 * i));
      ok = vandq_u32(ok, vcltq_f32(a, big));
      most = vmaxq_f32(most, a);
    }
    finite = vminvq_u32(ok) != 0;
    return vmaxvq_f32(most);
  }
  MOE_INLINE static void quantize32(const float *x, float inverse, int8_t *q,
                                    int16_t *sums) {
    for (int half = 0; half < 2; ++half) {
      int32x4_t v[4];
      for (int i = 0; i < 4; ++i)
        v[i] = vcvtnq_s32_f32(
            vmulq_n_f32(vld1q_f32(x + 16 * half + 4 * i), inverse));
      int16x8_t low = vqmovn_high_s32(vqmovn_s32(v[0]), v[1]);
      int16x8_t high = vqmovn_high_s32(vqmovn_s32(v[2]), v[3]);
      vst1q_s8(q + 16 * half, vqmovn_high_s16(vqmovn_s16(low), high));
      sums[half] = int16_t(
          vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3]))));
    }
  }

private:
  /// Returns 2^n for integers n in [-126, 127].
  MOE_INLINE static float32x4_t pow2(int32x4_t n) {
    return vreinterpretq_f32_s32(
        vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
  MOE_INLINE static float32x4_t scale4(float32x4_t p, float32x4_t n) {
    int32x4_t whole = vcvtnq_s32_f32(n);
    int32x4_t half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(p, pow2(half)), pow2(vsubq_s32(whole, half)));
  }
};

} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_NEON_SIMD_H
