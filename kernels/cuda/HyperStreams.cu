// HyperCollapse: out = sum over streams i of w_i x_i, the input of a layer's
// part (without weights, their mean). With MOE_SPREAD, HyperSpread: stream `to`
// becomes post[to] * y + sum over streams of mix[from][to] * x[from], where y
// is the part's output (without x, y). Weights of a token are [n for the input
// | n post | n x n mix]. A thread has one column of a token.

#include "kernels/cuda/Device.cuh"

#ifdef MOE_SPREAD
using Streams = HyperSpreadArgs;
#else
using Streams = HyperCollapseArgs;
#endif

MOE_KERNEL(256, 4, Streams) {
  int t = blockIdx.y, n = a.streams;
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= a.step->tokens || c >= a.cols)
    return;
  const float *x = a.x + t * a.xStride + c;
  const float *weights = a.weights + t * a.weightsStride;
  float *out = a.out + t * a.outStride + c;
#ifdef MOE_SPREAD
  const float *post = weights + n, *mix = post + n; // [from, to]
  float y = a.y[t * a.yStride + c];
  for (int to = 0; to < n; ++to) {
    float sum = y;
    if (a.x) {
      sum = post[to] * y;
      for (int from = 0; from < n; ++from)
        sum = fmaf(mix[from * n + to], x[from * a.cols], sum);
    }
    out[to * a.cols] = sum;
  }
#else
  float sum = 0;
  for (int i = 0; i < n; ++i)
    sum = fmaf(a.weights ? weights[i] : 1.0f / n, x[i * a.cols], sum);
  *out = sum;
#endif
}
