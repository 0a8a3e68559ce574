// ExpertsCombine: out[t] = sum over choices j of weights[j] * y[t * topK + j],
// added to out[t] with `accumulate`. Choices are added in their order; those
// whose expert is on another device are left out. A thread has one column of a
// token.

#include "kernels/cuda/ExpertSlice.cuh"

MOE_KERNEL(256, 4, ExpertsCombineArgs) {
  i64 t = blockIdx.y;
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= a.step->tokens || c >= a.cols)
    return;
  const float *y = a.y + t * a.topK * a.cols + c;
  const float *weights = a.weights + t * a.topK;
  float *out = a.out + t * a.cols + c;
  float sum = a.accumulate ? *out : 0.0f;
  for (int j = 0; j < a.topK; ++j)
    if (!a.ids || numberOf(a.ids[t * a.topK + j], a.slice) >= 0)
      sum = fmaf(weights[j], y[j * a.cols], sum);
  *out = sum;
}
