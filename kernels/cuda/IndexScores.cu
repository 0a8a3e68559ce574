// IndexScores: a lightning indexer's score of each entry that a token sees,
// scale * sum over heads h of weight_h * max(q_h * key, 0). A block has one
// token and every gridDim.y-th group of 32 entries.

#include "kernels/cuda/Index.cuh"

MOE_KERNEL(128, 4, IndexScoresArgs) {
  __shared__ float parts[kWarps][kRows];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  int seen = (place.position + 1) / a.ratio;
  Index index(a.key);
  int lane = index.lane, own = index.own;
  const float *q = a.q + t * a.qStride;
  const float *weights = a.weights ? a.weights + t * a.weightsStride : nullptr;
  for (int first = blockIdx.y * kRows; first < seen;
       first += gridDim.y * kRows) {
    int count = min(seen - first, kRows);
    index.loadKeys(a.kv, count, [&](int e) {
      return cacheRow(place.pages, (first + e + 1) * a.ratio - 1);
    });
    float sum = 0;
    for (int head = 0; head < a.heads; head += kHeads) {
      int heads = min(a.heads - head, kHeads);
      index.loadQueries(q + i64(head) * a.key, heads);
      float score[kOwn];
      index.multiply(count, score);
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        if (own + i < heads) // The comparison lets a NaN pass.
          sum = fmaf(weights ? weights[head + own + i] : 1,
                     score[i] < 0 ? 0 : score[i], sum);
    }
    parts[own / kOwn][lane] = sum;
    __syncthreads();
    if (own == 0 && lane < count) {
#pragma unroll
      for (int w = 1; w < kWarps; ++w)
        sum += parts[w][lane];
      a.out[t * a.outStride + first + lane] = a.scale * sum;
    }
  }
}
