//===- Mma.cuh - Integer matrix products of a warp --------------*- C++ -*-===//
//
// C[16][8] += A[16][k] * B[k][8], with lane = 4 g + c (PTX ISA, "Matrix
// Fragments for mma.m16n8k32"):
//   a[0] row g,     columns 4 c .. 4 c + 3      b[0] rows 4 c .. + 3, column g
//   a[1] row g + 8, the same columns
//   a[2] row g,     columns 16 + 4 c ..         b[1] rows 16 + 4 c .., column g
//   a[3] row g + 8, those
//   c[0], c[1] row g, columns 2 c, 2 c + 1      c[2], c[3] row g + 8
// k = 16 uses a[0], a[1] and b[0]. sm_75 has products of 8 rows, whose
// fragments are halves of these.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_MMA_CUH
#define MOE_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/Device.cuh"

#ifdef MOE_A_SIGNED
#define MOE_A_TYPE "s8"
#else
#define MOE_A_TYPE "u8"
#endif

#if __CUDA_ARCH__ < 800
MOE_DEVICE void mmaHalf(int *d, u32 a, u32 b, int c0, int c1) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32." MOE_A_TYPE
      ".s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a), "r"(b), "r"(c0), "r"(c1));
}
#endif

/// d = a * b + start with 16 columns of a (k = 16), where start[t] is added to
/// the sums of column 2 c + t of b. Copying the start values into d first would
/// cost a move per sum.
MOE_DEVICE void mma16(int *d, u32 a0, u32 a1, u32 b, const int *start) {
#if __CUDA_ARCH__ < 800
  mmaHalf(d, a0, b, start[0], start[1]);
  mmaHalf(d + 2, a1, b, start[0], start[1]);
#else
  asm("mma.sync.aligned.m16n8k16.row.col.s32." MOE_A_TYPE
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %7, %8};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(start[0]), "r"(start[1]));
#endif
}

/// Multiplies 32 columns of a.
MOE_DEVICE void mma32(int *d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1,
                      const int *start) {
#if __CUDA_ARCH__ < 800
  mma16(d, a0, a1, b0, start);
  mmaHalf(d, a2, b1, d[0], d[1]);
  mmaHalf(d + 2, a3, b1, d[2], d[3]);
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32." MOE_A_TYPE
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %10, %11};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(start[0]),
        "r"(start[1]));
#endif
}

/// The bits of kMagic = 1.5 * 2^23. An integer sum that starts at them has,
/// read as a float, the value kMagic + sum, exactly if |sum| is below 2^22.
/// Subtracting kMagic is one operation at full rate; a conversion takes four
/// times that.
constexpr int kMagicBits = 0x4b400000;
constexpr float kMagic = 12582912.0f;

#endif // MOE_KERNELS_CUDA_MMA_CUH
