// Rope: rotates part of each head in place. A thread rotates one pair:
// neighbours or, with MOE_NEOX, elements dim / 2 apart.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, RopeArgs) {
  int t = blockIdx.x, half = a.dim / 2;
  if (t >= a.step->tokens)
    return;
  const float *table = a.table + i64(t) * a.dim;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < a.heads * half;
       i += gridDim.y * blockDim.x) {
    int head = i / half, pair = i % half;
    float *x = a.x + t * a.stride + i64(head) * a.headStride + a.offset;
#ifdef MOE_NEOX
    float *u = x + pair, *v = u + half;
#else
    float *u = x + 2 * pair, *v = u + 1;
#endif
    float c = table[pair], s = table[half + pair];
    float first = *u, second = *v;
    *u = first * c - second * s;
    *v = second * c + first * s;
  }
}
