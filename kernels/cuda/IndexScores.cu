// IndexScores: a lightning indexer's score of each entry that a token sees. A
// block has one token and every gridDim.y-th group of 32 entries: their keys
// are converted to floats in shared memory, and a lane has one entry. Heads are
// processed sixteen at a time, four per warp, so that a key read from shared
// memory is multiplied with four queries.
//
// Floats in shared memory: keys [32][key + 1], with an odd stride so that lanes
// read from 32 banks; queries [16][key]. For 128 columns that is 25 KB.

#include "kernels/cuda/KvCache.cuh"

constexpr int kEntries = 32, kHeads = 16, kOwn = 4, kWarps = 4;

extern __shared__ float shared[];

MOE_KERNEL(128, 4, IndexScoresArgs) {
  __shared__ float parts[kWarps][kEntries];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  int seen = (place.position + 1) / a.ratio;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = warp * kOwn;
  int stride = a.key | 1;
  float *keys = shared, *queries = keys + kEntries * stride;
  const float *q = a.q + t * a.qStride;
  const float *weights = a.weights + t * a.weightsStride;
  for (int first = blockIdx.y * kEntries; first < seen;
       first += gridDim.y * kEntries) {
    int count = min(seen - first, kEntries);
    __syncthreads(); // The previous contents are not read any more.
    for (int e = 0; e < count; ++e) {
      i64 row = cacheRow(place.pages, (first + e + 1) * a.ratio - 1);
      for (int c = threadIdx.x; c < a.key; c += blockDim.x)
        keys[e * stride + c] = loadKv(a.kv, row, c);
    }
    float sum = 0;
    for (int head = 0; head < a.heads; head += kHeads) {
      int heads = min(a.heads - head, kHeads);
      __syncthreads();
      for (int i = threadIdx.x; i < kHeads * a.key; i += blockDim.x)
        queries[i] = i < heads * a.key ? q[i64(head) * a.key + i] : 0;
      __syncthreads();
      float score[kOwn] = {};
      if (lane < count)
        for (int c = 0; c < a.key; ++c) {
          float key = keys[lane * stride + c];
#pragma unroll
          for (int i = 0; i < kOwn; ++i)
            score[i] = fmaf(key, queries[(own + i) * a.key + c], score[i]);
        }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        if (own + i < heads) // Keeps a NaN.
          sum = fmaf(weights[head + own + i], score[i] < 0 ? 0 : score[i], sum);
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && lane < count) {
#pragma unroll
      for (int w = 1; w < kWarps; ++w)
        sum += parts[w][lane];
      a.out[t * a.outStride + first + lane] = a.scale * sum;
    }
  }
}
