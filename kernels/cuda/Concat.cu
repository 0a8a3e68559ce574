// Concat: the columns of x, then those of y. A thread has one column of the
// result.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ConcatArgs) {
  int t = blockIdx.y;
  if (t >= a.step->tokens)
    return;
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols + a.more)
    return;
  a.out[t * (a.cols + a.more) + c] =
      c < a.cols ? a.x[t * a.cols + c] : a.y[t * a.more + c - a.cols];
}
