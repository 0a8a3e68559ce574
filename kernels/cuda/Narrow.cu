// Rows of floats as 16-bit numbers for HalfGemm.cu: BF16, or F16 where
// MOE_FORMAT is F16. With MOE_PARTS 2 or 3, another row or two have what the
// ones before them leave of each float.
//
// F16 overflows at 65504 and loses bits below 2^-14, so a row is multiplied by
// the power of two that brings its largest number below 2^15; the inverse of
// the factor is the row's scale. Even the low part of a number 2^-13 times as
// large as the largest is then within the range of normal numbers. A row with
// an infinity or NaN gives one in every product.
//
// Where weights are F32, groups of eight columns are in the order 0, 4, 1, 5,
// 2, 6, 3, 7: ldmatrix gives a lane columns c and c + 4 of F32 rows, which are
// neighbours in the mma's operand.
//
// A block has one row; a thread takes eight columns at a time, which are one
// store of sixteen bytes. The row is read a second time from L1 or L2.

#include "kernels/cuda/Formats.cuh"

#if MOE_FORMAT == MOE_F16
#define MOE_HALF_IS_F16
#define MOE_HALF "f16"
#else
#define MOE_HALF "bf16"
#endif
#include "kernels/cuda/NarrowRow.cuh"

constexpr int kEach = 8;

/// Loads columns c .. c + 7, zeros past the last.
MOE_DEVICE void loadEight(float (&v)[kEach], const float *x, int c, int cols) {
  if (u64(x) % 16 == 0 && c + kEach <= cols) {
    float4 a = *(const float4 *)(x + c), b = *(const float4 *)(x + c + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    v[i] = c + i < cols ? x[c + i] : 0;
}

MOE_KERNEL(256, 4, NarrowArgs) {
  int row = narrowedRow(a);
  if (row < 0)
    return zeroRow(a);
  const float *x = (const float *)addressOf(a, row);
  float scale = 1;
#ifdef MOE_HALF_IS_F16
  float most = 0;
  for (int c = threadIdx.x * kEach; c < a.cols; c += blockDim.x * kEach) {
    float v[kEach];
    loadEight(v, x, c, a.cols);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      most = fmaxf(most, fabsf(v[i]));
  }
  scale = rowScale(most, 15, a.scales + row);
#endif
  for (int c = threadIdx.x * kEach; c < a.pitch; c += blockDim.x * kEach) {
    float v[kEach];
    loadEight(v, x, c, a.cols);
    u32 pair[kEach / 2][MOE_PARTS];
#pragma unroll
    for (int i = 0; i < kEach / 2; ++i)
#if MOE_FORMAT == MOE_F32
      split(pair[i], v[i] * scale, v[i + 4] * scale);
#else
      split(pair[i], v[2 * i] * scale, v[2 * i + 1] * scale);
#endif
    u16 *out = narrowedAt(a, row, c);
#pragma unroll
    for (int p = 0; p < MOE_PARTS; ++p)
      *(uint4 *)(out + p * a.plane) =
          make_uint4(pair[0][p], pair[1][p], pair[2][p], pair[3][p]);
  }
}
