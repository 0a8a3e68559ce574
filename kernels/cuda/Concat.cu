// Concat: out = [x | y]. A thread copies one column of a token.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ConcatArgs) {
  int t = blockIdx.y;
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x, all = a.first + a.second;
  if (t >= a.step->tokens || c >= all)
    return;
  a.out[t * all + c] = c < a.first ? a.x[t * a.first + c]
                                   : a.y[t * a.second + c - a.first];
}
