// RowStore: stores a token's floats as a row of a cache. A block has one token.

#include "kernels/cuda/KvRow.cuh"

extern __shared__ float row[]; // [width], for Q8_0 padded to whole blocks

MOE_KERNEL(256, 2, RowStoreArgs) {
  int t = blockIdx.x, width = int(a.kv.width);
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.xStride;
  for (int c = threadIdx.x; c < width; c += blockDim.x)
    row[c] = x[c];
  Place place = placeOf(a.step, t);
  storeRow(a.kv, cacheRow(place.pages, place.state, a.ring, place.position),
           row, width);
}
