//===- Bytes.h - Operations on 32 bytes, NEON -------------------*- C++ -*-===//
//
// The operations of cpu/lanes8/Bytes.h on pairs of registers. Products are
// sdot's, of signed bytes: codes are below 128, and those of 8 bits signed.
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_NEON_BYTES_H
#define MOE_KERNELS_CPU_NEON_BYTES_H

#include "kernels/cpu/GemmTiling.h"
#include "kernels/cpu/neon/Simd.h"

namespace moek::MOE_ISA {
namespace {

struct Ints {
  uint8x16_t low, high;
};
using Bytes16 = uint8x16_t;

/// Calls fn with the lower and the upper halves.
template <class Fn, class... Vectors>
MOE_INLINE Ints ofHalves(Fn fn, Vectors... v) {
  return {fn(v.low...), fn(v.high...)};
}

/// Elements of a half, as GCC's operators take them.
#define MOE_NEON_VIEW(name, type)                                              \
  MOE_INLINE type name(uint8x16_t v) { return type(v); }
MOE_NEON_VIEW(u16, uint16x8_t)
MOE_NEON_VIEW(s16, int16x8_t)
MOE_NEON_VIEW(u32, uint32x4_t)
MOE_NEON_VIEW(s32, int32x4_t)
#undef MOE_NEON_VIEW

MOE_INLINE Ints load256(const void *p) {
  auto *bytes = static_cast<const uint8_t *>(p);
  return {vld1q_u8(bytes), vld1q_u8(bytes + 16)};
}
MOE_INLINE Bytes16 load128(const void *p) {
  return vld1q_u8(static_cast<const uint8_t *>(p));
}
MOE_INLINE Bytes16 load64(const void *p) {
  return vcombine_u8(vld1_u8(static_cast<const uint8_t *>(p)), vdup_n_u8(0));
}
MOE_INLINE void store(void *p, Ints v) {
  auto *bytes = static_cast<uint8_t *>(p);
  vst1q_u8(bytes, v.low);
  vst1q_u8(bytes + 16, v.high);
}

MOE_INLINE Ints twice(Bytes16 v) { return {v, v}; }
MOE_INLINE Ints join(Bytes16 low, Bytes16 high) { return {low, high}; }
MOE_INLINE Bytes16 lowHalf(Ints v) { return v.low; }
MOE_INLINE Ints set8(int x) { return twice(vdupq_n_u8(uint8_t(x))); }
MOE_INLINE Ints set16(int x) {
  return twice(Bytes16(vdupq_n_u16(uint16_t(x))));
}
MOE_INLINE Ints set32(int x) { return twice(Bytes16(vdupq_n_s32(x))); }
MOE_INLINE Ints set64(uint64_t x) { return twice(Bytes16(vdupq_n_u64(x))); }
MOE_INLINE Ints list32(int a, int b, int c, int d, int e, int f, int g, int h) {
  return {Bytes16(int32x4_t{a, b, c, d}), Bytes16(int32x4_t{e, f, g, h})};
}
MOE_INLINE Bytes16 bytes16(uint64_t low, uint64_t high) {
  return Bytes16(uint64x2_t{low, high});
}
MOE_INLINE Bytes16 bytes16(int a, int b, int c, int d) {
  return Bytes16(int32x4_t{a, b, c, d});
}
MOE_INLINE Ints list64(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return {bytes16(a, b), bytes16(c, d)};
}

/// Defines an operation on one or two vectors by an expression of their halves.
#define MOE_NEON_OP1(name, ...)                                                \
  MOE_INLINE Ints name(Ints v) {                                               \
    return ofHalves([](Bytes16 a) { return Bytes16(__VA_ARGS__); }, v);        \
  }
#define MOE_NEON_OP2(name, ...)                                                \
  MOE_INLINE Ints name(Ints v, Ints w) {                                       \
    return ofHalves([](Bytes16 a, Bytes16 b) { return Bytes16(__VA_ARGS__); }, \
                    v, w);                                                     \
  }
#define MOE_NEON_SHIFT(name, ...)                                              \
  MOE_INLINE Ints name(Ints v, int n) {                                        \
    return ofHalves([n](Bytes16 a) { return Bytes16(__VA_ARGS__); }, v);       \
  }
MOE_NEON_OP2(bitAnd, a &b)
MOE_NEON_OP2(bitOr, a | b)
MOE_NEON_OP2(bitXor, a ^ b)
MOE_NEON_OP2(andNot, a & ~b)
MOE_NEON_OP2(equal8, a == b)
MOE_NEON_OP2(equal32, u32(a) == u32(b))
MOE_NEON_SHIFT(shiftRight16, u16(a) >> n)
MOE_NEON_SHIFT(shiftLeft16, u16(a) << n)
MOE_NEON_SHIFT(shiftSigned16, s16(a) >> n)
MOE_NEON_SHIFT(shiftRight32, u32(a) >> n)
MOE_NEON_SHIFT(shiftLeft32, u32(a) << n)
MOE_NEON_SHIFT(shiftSigned32, s32(a) >> n)
MOE_NEON_OP2(shiftRightEach32, u32(a) >> u32(b))
MOE_NEON_OP2(add8, a + b)
MOE_NEON_OP2(sub8, a - b)
MOE_NEON_OP2(add16, u16(a) + u16(b))
MOE_NEON_OP2(sub16, u16(a) - u16(b))
MOE_NEON_OP2(mul16, u16(a) * u16(b))
MOE_NEON_OP2(add32, u32(a) + u32(b))
MOE_NEON_OP2(sub32, u32(a) - u32(b))
MOE_NEON_OP2(max32, vmaxq_s32(s32(a), s32(b)))
MOE_NEON_OP2(pairProducts,
             vpaddq_s32(vmull_s16(vget_low_s16(s16(a)), vget_low_s16(s16(b))),
                        vmull_high_s16(s16(a), s16(b))))
MOE_NEON_OP2(shuffle, vqtbl1q_u8(a, b))
#undef MOE_NEON_OP1
#undef MOE_NEON_OP2
#undef MOE_NEON_SHIFT

MOE_INLINE Ints unsigned16(Bytes16 v) {
  return {Bytes16(vmovl_u8(vget_low_u8(v))), Bytes16(vmovl_high_u8(v))};
}
MOE_INLINE Ints signed16(Bytes16 v) {
  int8x16_t bytes = vreinterpretq_s8_u8(v);
  return {Bytes16(vmovl_s8(vget_low_s8(bytes))), Bytes16(vmovl_high_s8(bytes))};
}
MOE_INLINE Ints words32(int16x8_t words) {
  return {Bytes16(vmovl_s16(vget_low_s16(words))),
          Bytes16(vmovl_high_s16(words))};
}
MOE_INLINE Ints lowWords32(Ints v) { return words32(s16(v.low)); }
MOE_INLINE Ints highWords32(Ints v) { return words32(s16(v.high)); }
MOE_INLINE Ints signed32(Bytes16 v) { return lowWords32(signed16(v)); }
MOE_INLINE Ints unsigned32(Bytes16 v) { return lowWords32(unsigned16(v)); }
MOE_INLINE Floats toFloats(Ints v) {
  return {vcvtq_f32_s32(s32(v.low)), vcvtq_f32_s32(s32(v.high))};
}
MOE_INLINE Floats asFloats(Ints v) {
  return {vreinterpretq_f32_u8(v.low), vreinterpretq_f32_u8(v.high)};
}
MOE_INLINE Ints asInts(Floats v) {
  return {vreinterpretq_u8_f32(v.low), vreinterpretq_u8_f32(v.high)};
}
MOE_INLINE Floats halves(Bytes16 v) { return Simd::halves(v); }
MOE_INLINE Floats broadcastHalf(int16_t bits) {
  return Simd::halves(Bytes16(vdupq_n_s16(bits)));
}
MOE_INLINE Floats negatedFma(Floats a, Floats b, Floats c) {
  Floats sum = Simd::fma(a, b, c);
  return {vnegq_f32(sum.low), vnegq_f32(sum.high)};
}

MOE_INLINE Bytes16 upper8(Bytes16 v) {
  return vcombine_u8(vget_high_u8(v), vdup_n_u8(0));
}
MOE_INLINE Bytes16 interleave(Bytes16 a, Bytes16 b) { return vzip1q_u8(a, b); }
MOE_INLINE Bytes16 lowNibbles(Bytes16 v) { return v & vdupq_n_u8(15); }
MOE_INLINE Bytes16 highNibbles(Bytes16 v) { return vshrq_n_u8(v, 4); }
MOE_INLINE Bytes16 shiftBytes7(Bytes16 v) {
  return Bytes16(vshll_n_u8(vget_low_u8(v), 7));
}
MOE_INLINE Ints nibbles(Bytes16 v) { return {lowNibbles(v), highNibbles(v)}; }
MOE_INLINE Ints nibbleOctets(Bytes16 v) {
  uint64x2_t low = vreinterpretq_u64_u8(lowNibbles(v));
  uint64x2_t high = vreinterpretq_u64_u8(highNibbles(v));
  return {Bytes16(vzip1q_u64(low, high)), Bytes16(vzip2q_u64(low, high))};
}

/// Constants of unrolled loops choose the lane.
MOE_INLINE float32x4_t broadcastOne(Floats v, int i) {
  float32x4_t from = i < 4 ? v.low : v.high;
  return vdupq_n_f32(from[i % 4]);
}
MOE_INLINE Floats broadcastLane(Floats v, int i) {
  return {broadcastOne(v, i), broadcastOne(v, i)};
}
MOE_INLINE Floats spreadPair(Floats v, int i) {
  return {broadcastOne(v, i), broadcastOne(v, i + 1)};
}
MOE_INLINE Floats eachTwice(float32x4_t v) {
  return {vzip1q_f32(v, v), vzip2q_f32(v, v)};
}
MOE_INLINE Floats lowTwice(Floats v) { return eachTwice(v.low); }
MOE_INLINE Floats highTwice(Floats v) { return eachTwice(v.high); }

using Mask = int; ///< The number of lanes that are selected, from lane 0 on.
MOE_INLINE Mask firstLanes(int64_t count) {
  return count < 0 ? 0 : count < 8 ? int(count) : 8;
}
MOE_INLINE Floats loadMasked(const float *p, Mask mask) {
  return mask == 8 ? Simd::load(p) : Simd::loadPart(p, mask);
}
MOE_INLINE void storeMasked(float *p, Mask mask, Floats v) {
  Simd::storeFirst(p, v, mask);
}

/// Transposes a quarter: four halves of rows.
MOE_INLINE void transpose4x4(const Bytes16 (&r)[4], Bytes16 (&to)[4]) {
  uint64x2_t t[4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    t[2 * i] = uint64x2_t(vtrn1q_u32(u32(r[2 * i]), u32(r[2 * i + 1])));
    t[2 * i + 1] = uint64x2_t(vtrn2q_u32(u32(r[2 * i]), u32(r[2 * i + 1])));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    to[i] = Bytes16(vzip1q_u64(t[i], t[i + 2]));
    to[i + 2] = Bytes16(vzip2q_u64(t[i], t[i + 2]));
  }
}
MOE_INLINE void transpose8x8(Ints r[8]) {
  Bytes16 quarters[4][4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const Ints *rows = r + 4 * i;
    transpose4x4({rows[0].low, rows[1].low, rows[2].low, rows[3].low},
                 quarters[i]);
    transpose4x4({rows[0].high, rows[1].high, rows[2].high, rows[3].high},
                 quarters[2 + i]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = {quarters[0][c], quarters[1][c]};
    r[4 + c] = {quarters[2][c], quarters[3][c]};
  }
}

constexpr bool kHasDots = true, kSignedDots = true;
constexpr int32_t kDotStart = 0;

MOE_INLINE int32x4_t dot16(int32x4_t sums, Bytes16 codes, Bytes16 x) {
  return vdotq_s32(sums, int8x16_t(codes), int8x16_t(x));
}
MOE_INLINE Ints dot4(Ints sums, Ints codes, Ints x) {
  return {Bytes16(dot16(s32(sums.low), codes.low, x.low)),
          Bytes16(dot16(s32(sums.high), codes.high, x.high))};
}
MOE_INLINE Floats floats(Ints sums) { return toFloats(sums); }

#ifdef MOE_OF_neon_i8mm
constexpr bool kHasMatrices = true;

/// Stores two groups of four columns of a panel such that a row's eight columns
/// are neighbours: a register has two rows, as smmla takes them.
MOE_INLINE void storePair(uint8_t *first, uint8_t *second, Ints a, Ints b) {
  store(first, {Bytes16(vzip1q_u32(u32(a.low), u32(b.low))),
                Bytes16(vzip2q_u32(u32(a.low), u32(b.low)))});
  store(second, {Bytes16(vzip1q_u32(u32(a.high), u32(b.high))),
                 Bytes16(vzip2q_u32(u32(a.high), u32(b.high)))});
}

/// Multiplies `Columns` columns of 16 rows with T tokens. An smmla multiplies
/// two rows with two tokens; of an odd number the last is paired with itself.
/// In `codes`, pairs of groups have rows 0 .. 3, 8 .. 11, 4 .. 7, 12 .. 15.
template <int Columns, int T>
MOE_INLINE void matrixDots(const uint8_t *codes, const int8_t *const x[T],
                           const int32_t starts[T], Ints dots[T][2]) {
  constexpr int kPairs = (T + 1) / 2;
  auto second = [](int p) { return 2 * p + 1 < T ? 2 * p + 1 : T - 1; };
  int32x4_t sums[8][kPairs];
#pragma GCC unroll 8
  for (int p = 0; p < kPairs; ++p)
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r)
      sums[r][p] = int32x4_t{starts[2 * p], starts[second(p)], starts[2 * p],
                             starts[second(p)]};
#pragma GCC unroll 4
  for (int c = 0; c < Columns; c += 8) {
    int8x16_t columns[kPairs];
#pragma GCC unroll 8
    for (int p = 0; p < kPairs; ++p)
      columns[p] =
          vcombine_s8(vld1_s8(x[2 * p] + c), vld1_s8(x[second(p)] + c));
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
      int8x16_t rows = int8x16_t(load128(codes + 16 * c + 16 * r));
#pragma GCC unroll 8
      for (int p = 0; p < kPairs; ++p)
        sums[r][p] = vmmlaq_s32(sums[r][p], rows, columns[p]);
    }
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h)
#pragma GCC unroll 8
    for (int p = 0; p < kPairs; ++p) {
      int32x4_t low[2] = {sums[2 * h][p], sums[2 * h + 1][p]};
      int32x4_t high[2] = {sums[2 * h + 4][p], sums[2 * h + 5][p]};
      dots[2 * p][h] = {Bytes16(vuzp1q_s32(low[0], low[1])),
                        Bytes16(vuzp1q_s32(high[0], high[1]))};
      if (2 * p + 1 < T)
        dots[2 * p + 1][h] = {Bytes16(vuzp2q_s32(low[0], low[1])),
                              Bytes16(vuzp2q_s32(high[0], high[1]))};
    }
}
#else
constexpr bool kHasMatrices = false;

/// The text of sets with kHasMatrices names these; no code calls them.
template <class V> void storePair(uint8_t *first, uint8_t *second, V a, V b);
template <int Columns, int T, class... Args> void matrixDots(Args... args);
#endif

/// The text of sets without kHasDots names these; no code calls them.
template <class F> Ints products16(Ints codes, Ints x);
template <class V> Ints byteProducts(V codes, V x);
template <class V> Ints addInOrder16(V a, V b);
template <class V> Ints addInOrder32(V a, V b);
template <int Zero, int Sub> void laneStarts(const int8_t *q, int32_t *to);

struct HalfColumns {
  MOE_INLINE static void column(const uint8_t *tile, int c, Floats to[2]) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      uint16x8x2_t columns =
          vld2q_u16(reinterpret_cast<const uint16_t *>(tile + 32 * v));
      to[v] = halves(Bytes16(columns.val[c]));
    }
  }
  MOE_INLINE static void rows(Floats[2]) {}
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_NEON_BYTES_H
