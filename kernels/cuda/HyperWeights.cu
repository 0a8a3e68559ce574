// HyperWeights: the weights with which a layer's part reads n residual streams,
// writes to them and mixes them (HyperStreams.cu), from logits:
//   input  sigmoid(logit) + eps
//   post   2 sigmoid(logit)
//   mix    the softmax of each row + eps, columns divided by their sums, then
//          rows and columns in turn (Sinkhorn's iterations)
// A warp has one token, a lane up to two of the at most 64 pairs of streams. In
// double, because these few numbers per token are divided repeatedly.

#include "kernels/cuda/Device.cuh"

// The maximum is moek::kMaxStreams^2.
constexpr int kMostPairs = 64, kOwn = kMostPairs / 32;

MOE_DEVICE double sigmoidOf(double x) { return 1 / (1 + exp(-x)); }

/// Replaces mix[i] by change(i) for all pairs i; change() sees the previous
/// values of all pairs.
template <class Change>
MOE_DEVICE void forPairs(double *mix, int pairs, Change change) {
  double changed[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k)
    if (int i = int(threadIdx.x) + 32 * k; i < pairs)
      changed[k] = change(i);
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kOwn; ++k)
    if (int i = int(threadIdx.x) + 32 * k; i < pairs)
      mix[i] = changed[k];
  __syncwarp();
}

MOE_KERNEL(32, 1, HyperWeightsArgs) {
  __shared__ double mix[kMostPairs]; // [from, to]
  int t = blockIdx.x, lane = threadIdx.x, n = a.streams;
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.xStride;
  float *out = a.out + t * a.outStride;
  auto logit = [&](int i, int part) {
    return double(x[i]) * double(a.scale[part]) + double(a.base[i]);
  };
  for (int i = lane; i < n; i += 32)
    out[i] = float(sigmoidOf(logit(i, 0)) + double(a.eps));
  if (a.cols == n)
    return;
  for (int i = lane; i < n; i += 32)
    out[n + i] = float(2 * sigmoidOf(logit(n + i, 1)));

  int pairs = n * n;
  auto sumOf = [&](int first, int stride, double sum) {
    for (int j = 0; j < n; ++j)
      sum += mix[first + j * stride];
    return sum;
  };
  double eps = a.eps;
  forPairs(mix, pairs, [&](int i) { return logit(2 * n + i, 2); });
  forPairs(mix, pairs, [&](int i) {
    double most = mix[i / n * n];
    for (int to = 1; to < n; ++to)
      most = fmax(most, mix[i / n * n + to]);
    return exp(mix[i] - most);
  });
  forPairs(mix, pairs,
           [&](int i) { return mix[i] / sumOf(i / n * n, 1, 0) + eps; });
  forPairs(mix, pairs, [&](int i) { return mix[i] / sumOf(i % n, n, eps); });
  for (int i = 1; i < a.iterations; ++i) {
    forPairs(mix, pairs,
             [&](int p) { return mix[p] / sumOf(p / n * n, 1, eps); });
    forPairs(mix, pairs, [&](int p) { return mix[p] / sumOf(p % n, n, eps); });
  }
  for (int i = lane; i < pairs; i += 32)
    out[2 * n + i] = float(mix[i]);
}
