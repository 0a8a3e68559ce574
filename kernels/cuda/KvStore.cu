// KvStore: stores a token's keys and values as a row of the cache, each head's
// key and value in whole blocks of 64 (kernels/KvCache.h). A block has one
// token; a warp takes one block of 64 elements, a lane its elements 2 i and 2 i
// + 1.

#include "kernels/cuda/KvRow.cuh"

extern __shared__ int isBroken[]; // [heads]

MOE_KERNEL(256, 2, KvStoreArgs) {
  int t = blockIdx.x, lane = threadIdx.x % 32;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  i64 row = cacheRow(place.pages, place.state, a.ring, place.position);
  for (int h = threadIdx.x; h < a.heads; h += blockDim.x)
    isBroken[h] = 0;
  __syncthreads();
  int keyBlocks = kvBlocks(a.key), valueBlocks = kvBlocks(a.value);
  int keys = a.heads * keyBlocks, blocks = keys + a.heads * valueBlocks;
  for (int b = threadIdx.x / 32; b < blocks; b += blockDim.x / 32) {
    bool isKey = b < keys;
    int each = isKey ? keyBlocks : valueBlocks, at = isKey ? b : b - keys;
    int cols = isKey ? a.key : a.value, head = at / each;
    int c = at % each * kKvBlock + 2 * lane;
    const float *x =
        (isKey ? a.k + t * a.kStride : a.v + t * a.vStride) + i64(head) * cols;
    bool isFine = storeBlock(a.kv, row, b, c < cols ? x[c] : 0,
                             c + 1 < cols ? x[c + 1] : 0);
    if (!isFine && lane == 0)
      atomicOr(&isBroken[head],
               1); // Keys and values may set the flag in any order.
  }
  __syncthreads();
  // A head with a number that is not finite gets a NaN in its key, so that
  // every score of the row is NaN.
  for (int h = threadIdx.x; h < a.heads; h += blockDim.x)
    if (isBroken[h])
#if MOE_KV == MOE_KV_Q8_0
      *kvScale(a.kv, row, h * keyBlocks) = nanValue();
#else
      storeKv(a.kv, row, h * keyBlocks * kKvBlock, nanValue());
#endif
}
