// DeltaRule for keys that are too long for DeltaRule.cu: a block has 32 columns
// of a head's matrix S, which stay in the cache of states because registers
// could not hold them. A lane has one column, a warp some of the keys. Each
// element is accessed by the same thread from the first row to the last.
//
// Steps of any size give the same bits, because the computation of a row does
// not depend on where its step began.

#include "kernels/cuda/Rms.cuh"
#include "kernels/cuda/States.cuh"

constexpr int kWarps = 16, kKeys = (MOE_KEY + kWarps - 1) / kWarps;

MOE_KERNEL(32 * kWarps, 1, DeltaRuleArgs) {
  __shared__ float found[kWarps][32], answers[kWarps][32], squares[2][32];
  if (blockIdx.z >= a.step->sequences)
    return;
  const Sequence &s = a.step->sequence[blockIdx.z];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int head = blockIdx.y, column = blockIdx.x * 32 + lane;
  int keyHead = a.tiled ? head % a.keyHeads : head / (a.heads / a.keyHeads);
  i64 keysAt = i64(a.keyHeads) * MOE_KEY;
  bool isColumn = column < a.value;
  int first = warp * kKeys, last = min(first + kKeys, MOE_KEY);
  float *state =
      stateOf(a.state, s) + a.begin + i64(head) * MOE_KEY * a.value + column;

  auto total = [&](const float(&parts)[kWarps][32]) {
    float sum = parts[0][lane];
    for (int w = 1; w < kWarps; ++w)
      sum += parts[w][lane];
    return sum;
  };

  for (int t = s.begin; t < s.begin + s.count; ++t) {
    const float *x = a.x + t * a.xStride, *values = x + 2 * keysAt;
    const float *query = x + i64(keyHead) * MOE_KEY, *key = query + keysAt;
    const float *gates = a.gates + i64(t) * 2 * a.heads;
    // At a sequence's first row the state has arbitrary contents and must not
    // be read.
    bool isNew = s.position + t - s.begin == 0;
    float ofKey = 0, ofQuery = 0, sum = 0;
    for (int d = threadIdx.x; d < MOE_KEY; d += 32 * kWarps) {
      ofKey = fmaf(key[d], key[d], ofKey);
      ofQuery = fmaf(query[d], query[d], ofQuery);
    }
    for (int d = first; d < last && isColumn && !isNew; ++d)
      sum = fmaf(key[d], state[i64(d) * a.value], sum);
    found[warp][lane] = sum;
    // The barriers in blockSum also make `found` visible.
    ofKey = blockSum(ofKey, squares[0]) + a.eps;
    ofQuery = blockSum(ofQuery, squares[1]) + a.eps;
    float keyScale = ofKey < infinity() ? 1.0f / sqrtf(ofKey) : nanValue();
    float queryScale =
        ofQuery < infinity() ? 1.0f / sqrtf(ofQuery) : nanValue();

    float decay = gates[a.heads + head];
    float value = isColumn ? values[i64(head) * a.value + column] : 0;
    float written =
        gates[head] * keyScale * (value - decay * keyScale * total(found));
    sum = 0;
    for (int d = first; d < last && isColumn; ++d) {
      float *at = state + i64(d) * a.value;
      float now = fmaf(key[d], written, decay * (isNew ? 0.0f : *at));
      *at = now;
      sum = fmaf(query[d], now, sum);
    }
    answers[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && isColumn)
      a.out[t * a.outStride + i64(head) * a.value + column] =
          queryScale / sqrtf(float(MOE_KEY)) * total(answers);
  }
}
