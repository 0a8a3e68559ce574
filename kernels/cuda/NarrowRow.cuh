//===- NarrowRow.cuh - The row of a block that narrows it -------*- C++ -*-===//
//
// For Narrow.cu and NarrowA8.cu, whose blocks each have a row of activations.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_NARROWROW_CUH
#define MOE_KERNELS_CUDA_NARROWROW_CUH

#include "kernels/cuda/HalfMma.cuh"

/// Returns the number of the block's row, or -1 if it has none.
MOE_DEVICE int narrowedRow(const NarrowArgs &a) {
  int row = blockIdx.x;
  if (a.slots) {
    if (row >= *a.slotCount)
      return -1;
    row = a.slots[row];
  }
  return row / a.rowsPerToken < a.step->tokens ? row : -1;
}
MOE_DEVICE const u8 *addressOf(const NarrowArgs &a, int row) {
  return a.x + row / a.rowsPerToken * a.tokenStride +
         row % a.rowsPerToken * a.rowStride;
}

#ifdef MOE_TILED
/// Returns where column `c`, a multiple of eight, of a row is stored for
/// HalfTiles.cuh: at sixteen bytes that have another place in each of eight
/// rows.
MOE_DEVICE u16 *narrowedAt(const NarrowArgs &a, int row, int c) {
  return a.out + i64(c / 64) * a.plane + row * 64 + (c / 8 % 8 ^ row % 8) * 8;
}
/// Tiles have MOE_TILED rows. Those that a step does not have are zeros.
MOE_DEVICE void zeroRow(const NarrowArgs &a) {
  int row = blockIdx.x;
  if (row < (a.step->tokens + MOE_TILED - 1) / MOE_TILED * MOE_TILED)
    for (int c = threadIdx.x * 8; c < a.pitch; c += blockDim.x * 8)
      *(uint4 *)narrowedAt(a, row, c) = uint4{};
}
#else
MOE_DEVICE u16 *narrowedAt(const NarrowArgs &a, int row, int c) {
  return a.out + row * a.pitch + c;
}
MOE_DEVICE void zeroRow(const NarrowArgs &) {}
#endif

/// Returns the power of two that brings the largest `most` of the block's
/// threads below 2^bits, and stores its inverse in `inverse`.
MOE_DEVICE float rowScale(float most, int bits, float *inverse) {
  __shared__ float parts[32];
  most = warpMax(most);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = most;
  __syncthreads();
  int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  most = warpMax(lane < warps ? parts[lane] : 0.0f);
  // Exponents of 2^-100 and less would need scales that are no floats.
  int exponent =
      max(int(u32(__float_as_int(most)) >> 23) - 127 - (bits - 1), -100);
  if (threadIdx.x == 0)
    *inverse = __int_as_float((127 + exponent) << 23);
  return __int_as_float((127 - exponent) << 23);
}

#endif // MOE_KERNELS_CUDA_NARROWROW_CUH
