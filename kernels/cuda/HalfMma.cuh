//===- HalfMma.cuh - Matrix products of 16-bit floats -----------*- C++ -*-===//
//
// C[16][8] += A[16][16] * B[16][8] with F32 sums, with lane = 4 g + c (PTX ISA,
// "Matrix Fragments for mma.m16n8k16 with floating point type"). A register has
// two neighbours in k:
//   a[0] row g,     k = 2 c, 2 c + 1            b[0] those k, column g
//   a[1] row g + 8, the same k
//   a[2] row g,     k = 8 + 2 c, 9 + 2 c        b[1] those k, column g
//   a[3] row g + 8, those k
//   c[0], c[1] row g, columns 2 c, 2 c + 1      c[2], c[3] row g + 8
//
// Who includes this defines MOE_HALF, "f16" or "bf16", and MOE_HALF_IS_F16 for
// the former. sm_80 and later.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFMMA_CUH
#define MOE_KERNELS_CUDA_HALFMMA_CUH

#include "kernels/cuda/AsyncCopy.cuh"

/// Converts two floats to a pair of 16-bit ones, x in the low half.
MOE_DEVICE u32 narrow(float x, float y) {
  u32 pair;
  asm("cvt.rn." MOE_HALF "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
#ifdef MOE_HALF_IS_F16
MOE_DEVICE float widenLow(u32 pair) { return f16ToFloat(u16(pair)); }
MOE_DEVICE float widenHigh(u32 pair) { return f16ToFloat(u16(pair >> 16)); }
#else
MOE_DEVICE float widenLow(u32 pair) { return __int_as_float(int(pair << 16)); }
MOE_DEVICE float widenHigh(u32 pair) {
  return __int_as_float(int(pair & 0xffff0000));
}
#endif

/// Two floats, each as the sum of a 16-bit number in every part, the first
/// float in the low halves. Each part is what the ones before it leave,
/// rounded. The error of two parts is at most 2^-16 (BF16) or 2^-22 (F16) of
/// the float; three parts of BF16 have all 24 bits of a float.
template <int Parts>
MOE_DEVICE void split(u32 (&part)[Parts], float x, float y) {
#pragma unroll
  for (int p = 0; p < Parts; ++p) {
    part[p] = narrow(x, y);
    x -= widenLow(part[p]);
    y -= widenHigh(part[p]);
  }
}
struct Split {
  u32 high, low;
};
MOE_DEVICE Split split(float x, float y) {
  u32 part[2];
  split(part, x, y);
  return {part[0], part[1]};
}

/// d += a * b, with the fragments above.
MOE_DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." MOE_HALF "." MOE_HALF
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four matrices of eight rows of 16 bytes; lane i passes the shared
/// address of row i % 8 of matrix i / 8, less `Offset`. Lane 4 g + c gets the
/// four bytes from 4 c on of row g of each matrix.
template <int Offset = 0> MOE_DEVICE void loadMatrices(u32 (&x)[4], u32 row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4 + %5];"
      : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
      : "r"(row), "n"(Offset)
      : "memory");
}
MOE_DEVICE void loadMatrices(u32 (&x)[4], const void *row) {
  loadMatrices(x, sharedAddress(row));
}

/// The same with each matrix transposed: lane 4 g + c gets column g of rows 2 c
/// and 2 c + 1, which is operand B of a row-major matrix.
template <int Offset = 0> MOE_DEVICE void loadTransposed(u32 (&x)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, "
               "%3}, [%4 + %5];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row), "n"(Offset)
               : "memory");
}
MOE_DEVICE void loadTransposed(u32 (&x)[4], const void *row) {
  loadTransposed(x, sharedAddress(row));
}

#endif // MOE_KERNELS_CUDA_HALFMMA_CUH
