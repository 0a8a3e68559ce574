//===- Products.cuh - Scaling of a unit's products --------------*- C++ -*-===//
//
// A unit has 32 columns. In most formats they share a scale: one mma, and two
// float operations for each of its sums. In formats with a scale per sixteen
// columns (MOE_HALVES) both would be twice as many. But most such scales are an
// integer times d. Where that integer times a code fits in a byte (MOE_FOLDED),
// codes are multiplied by it as they are unpacked:
//
//           codes minus zero point    times            is b, or b - 128
//   Q2_K    0 .. 3                    0 .. 15          b in 0 .. 45
//   Q3_K    c - 4 of -4 .. 3          -s of -31 .. 32  b - 128 in -128 .. 124
//   IQ1_M   2 h - 9, 0 <= h <= 9      s of 1, 3 .. 15  2 (b - 128) + 1, of
//                                                      -135 .. 135
//
// For Q3_K only the negative fits, so the sign of d is flipped. For IQ1_M half
// of the odd number fits, and the remaining one is added as a minimum, d. In
// each case
//   b = code * multiple + start, in 0 .. 255
// so the four bytes of a word take one multiply-add, whatever carries pass
// between bytes in intermediate results: modulo 2^32 it is the sum of 256^i b.
//
// Where it does not fit (Q6_K: 128 * 32; IQ2: 31 * 43), or scales are floats
// (NVFP4), there are two mma of 16 columns, whose sums share the operations for
// the activations' scale.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_PRODUCTS_CUH
#define MOE_KERNELS_CUDA_PRODUCTS_CUH

#include "kernels/cuda/Rows16.cuh"

#if MOE_FORMAT == MOE_Q2_K || MOE_FORMAT == MOE_Q3_K || MOE_FORMAT == MOE_IQ1_M
#define MOE_FOLDED
#else
#include "kernels/cuda/SignedCodes.cuh"
#endif

/// Number of sums of a unit, each with a scale.
#if defined(MOE_HALVES) && !defined(MOE_FOLDED)
#define MOE_SUMS 2
#else
#define MOE_SUMS 1
#endif
/// Number of minima, which are multiplied with the sum of the unit's
/// activations, or of each half's.
#if defined(MOE_MIN) && defined(MOE_HALVES)
#define MOE_MINIMA 2
#elif defined(MOE_MIN) || MOE_FORMAT == MOE_IQ1_M
#define MOE_MINIMA 1
#else
#define MOE_MINIMA 0
#endif
constexpr int kSums = MOE_SUMS, kFactors = kSums + MOE_MINIMA;

#ifdef MOE_FOLDED
/// The multiples and starts of the formula above, a byte for each of four rows;
/// x is for columns 0 .. 15 of the unit, y for 16 .. 31.
struct Fold {
  uint2 multiple;
#ifdef MOE_ZERO
  uint2 start;
#endif
};

MOE_DEVICE Fold foldOf(const UnitScales &unit, int u) {
  uint2 n = integersOf(unit, u).scale;
#if MOE_FORMAT == MOE_IQ1_M
  // s = 2 i + 1: s h - (9 s + 1) / 2 + 128 = s h + 123 - 9 i.
  auto startOf = [&](u32 s) { return 0x7b7b7b7bu - (s >> 1 & 0x07070707) * 9; };
  return {n, {startOf(n.x), startOf(n.y)}};
#else
  n = {__byte_perm(n.x, n.y, 0x6420), __byte_perm(n.x, n.y, 0x7531)};
#if MOE_FORMAT == MOE_Q3_K
  // s = n - 32: -s (c - 4) + 128 = (32 - n) c + 4 n.
  auto negative = [&](u32 n) { return (0xa0a0a0a0u - n) ^ 0x80808080u; };
  return {{negative(n.x), negative(n.y)}, {n.x << 2, n.y << 2}};
#else
  return {n};
#endif
#endif
}

/// Returns byte `i` of `word`, sign-extended.
MOE_DEVICE u32 signedByte(u32 word, int i) {
  u32 value;
  asm("prmt.b32 %0, %1, 0, %2;"
      : "=r"(value)
      : "r"(word), "r"(0x8880 + 0x1111 * i));
  return value;
}

/// Returns a row's codes multiplied by their scales: operand A as signed bytes.
MOE_DEVICE RowCodes foldedCodes(const Codes &codes, const Fold &fold, int row,
                                int c) {
  RowCodes r = rowCodes(codes, row, c);
#ifdef MOE_SHIFTS
  // Bytes are even, so that no bit moves to another byte.
  r = {r.low >> 1, r.high >> 1};
#endif
  r.low *= signedByte(fold.multiple.x, row);
  r.high *= signedByte(fold.multiple.y, row);
#ifdef MOE_ZERO
  r.low = (r.low + __byte_perm(fold.start.x, 0, 0x1111 * row)) ^ 0x80808080;
  r.high = (r.high + __byte_perm(fold.start.y, 0, 0x1111 * row)) ^ 0x80808080;
#endif
  return r;
}
#endif

/// Decodes a unit's kSums scales, then its minima, for four rows each.
MOE_DEVICE void decode(float (&p)[kFactors][4], const BlockScales &block,
                       const UnitScales &unit, int u) {
  Factors f;
  decode(f, block, unit, u);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#if MOE_FORMAT == MOE_Q2_K
    p[0][r] = halfOf(block.d, r);
#elif MOE_FORMAT == MOE_Q3_K
    p[0][r] = -halfOf(block.d, r);
#elif MOE_FORMAT == MOE_IQ1_M
    p[1][r] = halfOf(block.d, r) * kUnit;
    p[0][r] = 2 * p[1][r];
#else
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
      p[half][r] = f.scale[half][r] * (1.0f / (1 << kCodeShift));
#endif
#ifdef MOE_MIN
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
      p[kSums + half][r] = f.min[half][r];
#endif
  }
}

#endif // MOE_KERNELS_CUDA_PRODUCTS_CUH
