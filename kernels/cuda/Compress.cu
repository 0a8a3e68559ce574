// Compress: every `ratio` tokens of a sequence become one entry, whose columns
// are sums of the tokens' values weighted by the softmax of their gates (plus
// `ape` of the token's place), column by column. A thread has one column of a
// sequence and processes its rows in order. Incomplete sums are relative to a
// running maximum, as the state stores them, so that it does not matter where a
// step ends.
//
// With `overlap` a token has two sets of columns, and an entry combines the
// second set of its own tokens (`now`) with the first set of the tokens of the
// entry before (`before`). `first` collects the first set for the next entry.

#include "kernels/cuda/States.cuh"

/// An incomplete sum of values weighted by exp(gate): relative to the largest
/// gate, `weight` is the sum of weights and `sum` that of weighted values.
struct OnlineSoftmaxSum {
  float most, weight, sum;

  /// Adds exp(`gate`) * `w` to the weight and exp(`gate`) * `value` to the sum:
  /// a token with w = 1, or another sum with its maximum as `gate`. A NaN gate
  /// makes both NaN, but not the maximum.
  __device__ void add(float gate, float w, float value) {
    float next = gate > most ? gate : most;
    float before = expf(most - next), now = expf(gate - next);
    most = next;
    weight = fmaf(weight, before, now * w);
    sum = fmaf(sum, before, now * value);
  }
};
MOE_DEVICE OnlineSoftmaxSum noSum() { return {-infinity(), 0, 0}; }
MOE_DEVICE OnlineSoftmaxSum loadSum(const float *p, i64 cols) {
  return {p[0], p[cols], p[2 * cols]};
}
MOE_DEVICE void storeSum(float *p, i64 cols, OnlineSoftmaxSum s) {
  p[0] = s.most;
  p[cols] = s.weight;
  p[2 * cols] = s.sum;
}

MOE_KERNEL(128, 4, CompressArgs) {
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (blockIdx.y >= a.step->sequences || c >= a.cols)
    return;
  const Sequence &s = a.step->sequence[blockIdx.y];
  float *state = stateOf(a.state, s) + c;
  i64 own = a.overlap ? a.cols : 0, width = a.cols + own;
  OnlineSoftmaxSum now = noSum(), first = noSum(), before = noSum();
  if (s.position > 0) {
    now = loadSum(state, a.cols);
    if (a.overlap) {
      first = loadSum(state + 3 * a.cols, a.cols);
      before = loadSum(state + 6 * a.cols, a.cols);
    }
  }
  int place = s.position % a.ratio;
  for (int t = s.begin; t < s.begin + s.count; ++t) {
    const float *kv = a.kv + t * a.kvStride + c;
    const float *gate = a.gate + t * a.gateStride + c;
    const float *ape = a.ape + place * width + c;
    auto scoreAt = [&](i64 at) {
      return (a.gate ? gate[at] : 0) + (a.ape ? ape[at] : 0);
    };
    now.add(scoreAt(own), 1, kv[own]);
    if (a.overlap)
      first.add(scoreAt(0), 1, kv[0]);
    if (++place < a.ratio)
      continue;
    place = 0;
    if (a.overlap)
      now.add(before.most, before.weight, before.sum);
    a.out[t * a.outStride + c] = now.sum / now.weight;
    before = first;
    now = first = noSum();
  }
  storeSum(state, a.cols, now);
  if (a.overlap) {
    storeSum(state + 3 * a.cols, a.cols, first);
    storeSum(state + 6 * a.cols, a.cols, before);
  }
}
