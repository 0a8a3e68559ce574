// A8 rows as F16 for HalfGemm.cu with panels. Groups of sixteen columns are in
// the order 0, 2, .. 14, 1, 3, .. 15 (HalfPanels.cuh).
//
// A row is multiplied by the power of two that brings its largest scale times
// 128 below 2^15, so that nothing overflows; the inverse of the factor is the
// row's scale. A number is rounded by 2^-11 of itself, where A8 has rounded it
// by 2^-8 of the largest of 32. If a scale is NaN, every product of the row is.
//
// A block has one row; a thread takes sixteen columns at a time.

#include "kernels/cuda/A8.cuh"

#define MOE_HALF_IS_F16
#define MOE_HALF "f16"
#include "kernels/cuda/NarrowRow.cuh"

constexpr int kEach = 16;

MOE_KERNEL(256, 4, NarrowArgs) {
  int row = narrowedRow(a);
  if (row < 0)
    return;
  const u8 *x = addressOf(a, row);
  const float *scales = a8Scales(x, a.cols);
  float most = 0;
  for (int i = threadIdx.x; i < a.cols / 32; i += blockDim.x)
    most = fmaxf(most, scales[i]);
  // Codes have up to 2^7, so that products stay below 2^15.
  float times = rowScale(most, 8, a.scales + row);
  u16 *out = a.out + row * a.pitch;
  for (int c = threadIdx.x * kEach; c < a.cols; c += blockDim.x * kEach) {
    uint4 codes = __ldg((const uint4 *)(x + c));
    float scale = scales[c / 32] * times;
    const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
    u32 even[4], odd[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      auto value = [&](int k) {
        return scale * float(i8(words[i] >> (8 * k) & 255));
      };
      even[i] = narrow(value(0), value(2));
      odd[i] = narrow(value(1), value(3));
    }
    *(uint4 *)(out + c) = make_uint4(even[0], even[1], even[2], even[3]);
    *(uint4 *)(out + c + 8) = make_uint4(odd[0], odd[1], odd[2], odd[3]);
  }
}
