// SplitChoices: sorts a token's choices by descending weight, as
// kernels/cpu/Router.h does. A block has one token, a thread one choice.

#include "kernels/cuda/Device.cuh"

MOE_DEVICE float sorted(float x) { return x == x ? x : -infinity(); }

MOE_KERNEL(32, 1, SplitChoicesArgs) {
  int t = blockIdx.x, first = a.topK - a.last;
  if (t >= a.step->tokens)
    return;
  const float *weights = a.weights + i64(t) * a.topK;
  for (int j = threadIdx.x; j < a.topK; j += blockDim.x) {
    float own = sorted(weights[j]);
    int place = 0;
    for (int i = 0; i < a.topK; ++i) {
      float other = sorted(weights[i]);
      place += other > own || (other == own && i < j);
    }
    int id = a.ids[i64(t) * a.topK + j];
    if (place < first) {
      a.firstIds[i64(t) * first + place] = id;
      a.firstWeights[i64(t) * first + place] = weights[j];
    } else {
      a.lastIds[i64(t) * a.last + place - first] = id;
      a.lastWeights[i64(t) * a.last + place - first] = weights[j];
    }
  }
}
