// RowStore: stores the floats of every `ratio`-th token of a sequence as a row
// of a cache. A block has one token.

#include "kernels/cuda/KvRow.cuh"

extern __shared__ float row[]; // [width], for Q8_0 padded to whole blocks

MOE_KERNEL(256, 2, RowStoreArgs) {
  int t = blockIdx.x, width = int(a.kv.width);
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  if ((place.position + 1) % a.ratio != 0)
    return;
  const float *x = a.x + t * a.xStride;
  for (int c = threadIdx.x; c < width; c += blockDim.x)
    row[c] = x[c];
  storeRow(a.kv, cacheRow(place.pages, place.state, a.ring, place.position),
           row, width);
}
