//===- A8.cuh - Access to A8 rows (kernels/Activation.h) --------*- C++ -*-===//
//
// int8 q[cols], float scale[cols / 32], int16 sum[cols / 16]. Rows begin at
// multiples of 64 bytes, so that four neighbouring scales, and where cols is a
// multiple of 128 the sums of four blocks, are one 16-byte load.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_A8_CUH
#define MOE_KERNELS_CUDA_A8_CUH

#include "kernels/cuda/Device.cuh"

MOE_DEVICE const float *a8Scales(const u8 *row, i64 cols) {
  return (const float *)(row + cols);
}
/// Sums of the quantised values, one word per block of 32 columns: the sum of
/// its columns 0 .. 15 is in the low half, that of columns 16 .. 31 in the high
/// half. Both are signed; firstSum() and secondSum() extract them.
MOE_DEVICE const u32 *a8Sums(const u8 *row, i64 cols) {
  return (const u32 *)(row + cols + cols / 8);
}
MOE_DEVICE int firstSum(u32 sums) { return int(sums << 16) >> 16; }
MOE_DEVICE int secondSum(u32 sums) { return int(sums) >> 16; }

#endif // MOE_KERNELS_CUDA_A8_CUH
