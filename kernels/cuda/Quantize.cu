// Quantize: rows of floats as A8, or A8K where MOE_BLOCK_COLS is 128.
//
// A warp takes 128 columns, a lane four neighbours: eight lanes have a block of
// 32, which shares a scale (with MOE_BLOCK_COLS 128 all lanes share one), and
// four lanes the sixteen columns of a sum. The scale is the largest absolute
// value / 127. A block with a NaN or an infinity gets a NaN scale; a block
// whose largest value is below 1e-36 becomes zero, because its inverse scale
// would overflow. kernels/cpu/Elementwise.h does the same.

#include "kernels/cuda/A8.cuh"

MOE_KERNEL(256, 4, QuantizeArgs) {
  int lane = threadIdx.x % 32;
  i64 row = blockIdx.y;
  i64 c = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (row >= i64(a.step->tokens) * a.rowsPerToken || c - lane * 4 >= a.cols)
    return;
  bool isInside = c < a.cols; // Blocks of 32 are either inside or outside.
  const float *x = a.x + row * a.xStride + c;
  float v[4] = {0, 0, 0, 0};
  bool isBroken = false;
  float most = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (isInside)
      v[i] = x[i];
    isBroken |= !isFinite(v[i]);
    most = fmaxf(most, fabsf(v[i]));
  }
#pragma unroll
  for (int i = 1; i < MOE_BLOCK_COLS / 4; i *= 2) {
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, i));
    isBroken |= __shfl_xor_sync(kAllLanes, int(isBroken), i) != 0;
  }
  float inverse = !isBroken && most >= 1e-36f ? 127 / most : 0;
  int sum = 0;
  u32 codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int q = inverse != 0 ? __float2int_rn(v[i] * inverse) : 0;
    sum += q;
    codes |= u32(q & 0xff) << (8 * i);
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);
  if (!isInside)
    return;
  u8 *out = a.out + row * a.outStride;
  *(u32 *)(out + c) = codes;
  if (lane % 8 == 0)
    ((float *)a8Scales(out, a.cols))[c / 32] = isBroken       ? nanValue()
                                               : inverse != 0 ? most / 127
                                                              : 0;
  if (lane % 4 == 0)
    ((i16 *)a8Sums(out, a.cols))[c / 16] = i16(sum);
}
