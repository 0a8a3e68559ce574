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
  const DeltaColumns at = columnsOf(a, head);
  float skip = a.skip ? a.skip[head] : 0;
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
    const float *x = a.x + t * a.xStride, *values = x + at.value;
    const float *query = x + at.query, *key = x + at.key;
    const float *decays = decaysOf(a, t, head);
    float strength = a.gates[t * a.gatesStride + head];
    // At a sequence's first row the state has arbitrary contents and must not
    // be read.
    bool isNew = s.position + t - s.begin == 0;
    float ofKey = 0, ofQuery = 0, sum = 0;
    for (int d = threadIdx.x; d < MOE_KEY; d += 32 * kWarps) {
      ofKey = fmaf(key[d], key[d], ofKey);
      ofQuery = fmaf(query[d], query[d], ofQuery);
    }
    for (int d = first; d < last && isColumn && !isNew; ++d)
      sum = fmaf(key[d],
                 (MOE_CHANNELS ? decays[d] : 1) * state[i64(d) * a.value], sum);
    found[warp][lane] = sum;
    // The barriers in blockSum also make `found` visible.
    ofKey = blockSum(ofKey, squares[0]) + a.eps;
    ofQuery = blockSum(ofQuery, squares[1]) + a.eps;
    float keyScale = ofKey < infinity() ? 1.0f / sqrtf(ofKey) : nanValue();
    float queryScale =
        ofQuery < infinity() ? 1.0f / sqrtf(ofQuery) : nanValue();
    queryScale /= sqrtf(float(MOE_KEY));

    float decay = MOE_CHANNELS ? 1 : decays[0];
    float value = isColumn ? values[column] : 0;
    float written =
        strength * keyScale * (value - decay * keyScale * total(found));
    if (MOE_SUMS)
      queryScale = 1, written = strength * value;
    sum = 0;
    for (int d = first; d < last && isColumn; ++d) {
      float *cell = state + i64(d) * a.value;
      float fade = MOE_CHANNELS ? decays[d] : decay;
      float now = fmaf(key[d], written, fade * (isNew ? 0.0f : *cell));
      *cell = now;
      sum = fmaf(query[d], now, sum);
    }
    answers[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && isColumn)
      a.out[t * a.outStride + i64(head) * a.value + column] =
          fmaf(skip, value, queryScale * total(answers));
  }
}
