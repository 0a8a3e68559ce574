// BlockScores: the largest product of each group's query with the keys of a
// block of positions, for the blocks that a token may choose. A block of the
// grid has one token and every gridDim.y-th block of positions.

#include "kernels/cuda/Index.cuh"

/// The largest of a warp's numbers; a NaN if there is one.
MOE_DEVICE float warpMaxOrNaN(float x) {
  float most = warpMax(x);
  return __any_sync(kAllLanes, x != x) ? nanValue() : most;
}

MOE_KERNEL(128, 4, BlockScoresArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  int blocks = entriesSeen(place.position, a.ratio, a.local);
  Index index(a.key);
  const float *q = a.q + t * a.qStride;
  for (int group = 0; group < a.groups; group += kHeads) {
    int groups = min(a.groups - group, kHeads);
    for (int block = blockIdx.y; block < blocks; block += gridDim.y) {
      float most[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        most[i] = -infinity();
      for (int first = 0; first < a.ratio; first += kRows) {
        int count = min(a.ratio - first, kRows);
        index.loadKeys(a.kv, count, [&](int r) {
          return cacheRow(place.pages, block * a.ratio + first + r);
        });
        index.loadQueries(q + i64(group) * a.key, groups);
        float score[kOwn];
        index.multiply(count, score);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          float x = warpMaxOrNaN(index.lane < count ? score[i] : -infinity());
          most[i] = x > most[i] || x != x ? x : most[i];
        }
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        if (index.lane == 0 && index.own + i < groups)
          a.out[(i64(t) * a.groups + group + index.own + i) * a.outStride +
                block] = most[i];
    }
  }
}
