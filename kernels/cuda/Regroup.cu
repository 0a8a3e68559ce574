// Regroup: a row of x has groups of `width` columns, each with a first, second
// and third part. The result has the first parts of all groups, then the second
// parts, then the third ones. A thread has one column of the result.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, RegroupArgs) {
  int t = blockIdx.y;
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.xStride + a.offset;
  float *out = a.out + t * a.outStride;
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int parts[] = {a.first, a.second, a.third};
  if (c >= a.groups * (parts[0] + parts[1] + parts[2]))
    return;
  int at = c, begin = 0, part = parts[0];
#pragma unroll
  for (int i = 1; i < 3; ++i)
    if (at >= a.groups * part) {
      at -= a.groups * part;
      begin += part;
      part = parts[i];
    }
  out[c] = x[at / part * a.width + begin + at % part];
}
