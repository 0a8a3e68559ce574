//===- SignedCodes.cuh - Codes as signed operands of mma --------*- C++ -*-===//
//
// A code of b bits with zero point 2^(b - 1) becomes a signed byte in two
// operations: it is shifted to the top of the byte, which multiplies it by 2^(8
// - b), and its top bit is flipped. The scale is divided by the same factor.
// |code| is at most 2^7, so that sums of 32 products stay within 2^19. Other
// zero points are subtracted, for four codes at a time. Products.cuh handles
// Q3_K and IQ1_M.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_SIGNEDCODES_CUH
#define MOE_KERNELS_CUDA_SIGNEDCODES_CUH

#include "kernels/cuda/Rows16.cuh"

#if defined(MOE_ZERO) && !defined(MOE_SHIFTS)
constexpr int kCodeShift = 8 - MOE_BITS;
static_assert(kZero == 1 << (MOE_BITS - 1));
#else
constexpr int kCodeShift = 0;
#endif

/// Returns a row's signed bytes: its codes minus kZero, times 2^kCodeShift.
MOE_DEVICE RowCodes signedCodes(const Codes &codes, int row, int c) {
#ifndef MOE_ZERO
  return rowCodes(codes, row, c);
#else
  constexpr u32 kTop = 0x80808080;
  [[maybe_unused]] u32 w = part(codes.word[0], row);
#if defined(MOE_SHIFTS)
  // No byte borrows from its neighbour, because the top bits are set first and
  // flipped afterwards.
  RowCodes r = rowCodes(codes, row, c);
  return {((r.low | kTop) - kZero * 0x01010101u) ^ kTop,
          ((r.high | kTop) - kZero * 0x01010101u) ^ kTop};
#elif MOE_BITS == 8
  return {w ^ kTop, part(codes.word[1], row) ^ kTop};
#elif MOE_BITS == 4
  return {(w << 4 & 0xf0f0f0f0) ^ kTop, (w & 0xf0f0f0f0) ^ kTop};
#elif MOE_BITS == 5
  u32 top = part(codes.word[1], row);
  return {((w << 3 & 0x78787878) | (top << (7 - c) & kTop)) ^ kTop,
          ((w >> 1 & 0x78787878) | (top << (3 - c) & kTop)) ^ kTop};
#else
  static_assert(MOE_BITS == 6);
  u32 low = part(codes.word[1], row) << (6 - 2 * c),
      high = part(codes.word[2], row) << (6 - 2 * c);
  return {((w << 2 & 0x3c3c3c3c) | (low & 0xc0c0c0c0)) ^ kTop,
          ((w >> 2 & 0x3c3c3c3c) | (high & 0xc0c0c0c0)) ^ kTop};
#endif
#endif
}

#endif // MOE_KERNELS_CUDA_SIGNEDCODES_CUH
