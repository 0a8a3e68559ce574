// IndexScores: what a lightning indexer thinks of each entry that a token sees.
// A block is a token and every gridDim.y-th 32 of its entries: their keys
// become floats in shared memory, a lane is an entry. Heads come sixteen at a
// time, a warp has four of them, so that a key read from shared memory meets
// four queries.
//
// Shared floats: keys [32][key + 1], an odd stride so that lanes read from 32
// banks; queries [16][key]: 128 columns are 25 KB.

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
    __syncthreads(); // Nobody reads what was there before any more.
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
        if (own + i < heads) // A NaN stays one.
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
