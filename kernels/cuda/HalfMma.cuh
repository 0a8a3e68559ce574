//===- HalfMma.cuh - 16-bit matrix products of a warp -----------*- C++ -*-===//
//
// d[16][8] += a[16][16] * b[16][8] of F16 or BF16 with float sums, and what
// their operands are made of. The type is that of the cache (MOE_KV); a Q8_0
// cache's codes are BF16, in which they are exact. sm_80 and later.
//
// With lane = 4 g + c (PTX ISA, "Matrix Fragments for mma.m16n8k16 with
// floating point type"):
//   a[0] row g,     columns 2 c, 2 c + 1      b0 rows 2 c, 2 c + 1, column g
//   a[1] row g + 8, the same columns          b1 rows 2 c + 8, + 9, column g
//   a[2] row g,     columns 2 c + 8, + 9
//   a[3] row g + 8, those
//   d[0], d[1] row g, columns 2 c, 2 c + 1    d[2], d[3] row g + 8
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFMMA_CUH
#define MOE_KERNELS_CUDA_HALFMMA_CUH

#include "kernels/cuda/KvCache.cuh"

#if MOE_KV == MOE_KV_F16
#define MOE_HALF "f16"
/// F16 overflows at 65504: queries are scaled by a power of two, and weights,
/// which are at most 1, by 2^14, so that small ones keep their bits.
constexpr int kWeightExponent = 14;
/// Bits of an infinity, in both halves of a word.
constexpr u32 kInfinities = 0x7c007c00;
#else
#define MOE_HALF "bf16"
constexpr int kWeightExponent = 0;
constexpr u32 kInfinities = 0x7f807f80;
#endif
constexpr float kWeightScale = float(1 << kWeightExponent);

MOE_DEVICE u32 sharedAddress(const void *p) {
  return u32(__cvta_generic_to_shared(p));
}

/// Convert two floats to a pair of 16-bit ones, x in the low half, and back.
MOE_DEVICE u32 narrow(float x, float y) {
  u32 pair;
  asm("cvt.rn." MOE_HALF "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
MOE_DEVICE float widenLow(u32 pair) {
#if MOE_KV == MOE_KV_F16
  return f16ToFloat(u16(pair));
#else
  return __int_as_float(int(pair << 16));
#endif
}
MOE_DEVICE float widenHigh(u32 pair) {
#if MOE_KV == MOE_KV_F16
  return f16ToFloat(u16(pair >> 16));
#else
  return __int_as_float(int(pair & 0xffff0000));
#endif
}

/// Two floats, each split into a high and a low 16-bit part.
struct Split {
  u32 high, low;
};
MOE_DEVICE Split split(float x, float y) {
  u32 high = narrow(x, y);
  return {high, narrow(x - widenLow(high), y - widenHigh(high))};
}

MOE_DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." MOE_HALF "." MOE_HALF
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four matrices of eight rows of 16 bytes; lane i passes the shared
/// address of row i % 8 of matrix i / 8. Lane 4 g + c gets elements 2 c, 2 c +
/// 1 of row g of each matrix, or of column g when transposed.
MOE_DEVICE void loadMatrices(u32 (&x)[4], u32 row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
      : "r"(row)
      : "memory");
}
MOE_DEVICE void loadMatrices(u32 (&x)[4], const void *row) {
  loadMatrices(x, sharedAddress(row));
}
MOE_DEVICE void loadTransposed(u32 (&x)[4], u32 row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
      : "r"(row)
      : "memory");
}
MOE_DEVICE void loadTransposed(u32 (&x)[4], const void *row) {
  loadTransposed(x, sharedAddress(row));
}

/// Copies `bytes` of 16 bytes in the background; the others become zero.
MOE_DEVICE void copyAsync(u32 to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(bytes)
               : "memory");
}
MOE_DEVICE void copyAsync(void *to, const void *from, int bytes) {
  copyAsync(sharedAddress(to), from, bytes);
}
MOE_DEVICE void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `Pending` groups of copies are under way.
template <int Pending> MOE_DEVICE void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Pending) : "memory");
}

/// Returns the exponent that brings `most` below 2^14, or 0 if the type needs
/// no scaling.
MOE_DEVICE int exponentFor(float most) {
#if MOE_KV == MOE_KV_F16
  int exponent = int(u32(__float_as_int(most)) >> 23) - 127 - 13;
  return exponent > -100 ? exponent : -100;
#else
  return 0;
#endif
}
MOE_DEVICE float powerOfTwo(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

#endif // MOE_KERNELS_CUDA_HALFMMA_CUH
