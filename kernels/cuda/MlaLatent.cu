// MlaLatent: stores a token's normalised latent and its rotated key as a row of
// the cache. A block has one token; it assembles the row in shared memory.

#include "kernels/cuda/KvRow.cuh"
#include "kernels/cuda/Rms.cuh"

// [latent + rope], for Q8_0 padded to whole blocks
extern __shared__ float row[];

MOE_KERNEL(256, 2, MlaLatentArgs) {
  __shared__ float shared[32];
  int t = blockIdx.x, half = a.rope / 2;
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.stride, *key = x + a.latent;
  const float *table = a.table + i64(t) * a.rope;
  float scale = rmsScale(x, a.latent, a.eps, shared);
  for (int c = threadIdx.x; c < a.latent; c += blockDim.x)
    row[c] = x[c] * scale * a.weight[c];
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    float c = table[i], s = table[half + i];
    row[a.latent + 2 * i] = key[2 * i] * c - key[2 * i + 1] * s;
    row[a.latent + 2 * i + 1] = key[2 * i + 1] * c + key[2 * i] * s;
  }
  Place place = placeOf(a.step, t);
  storeRow(a.kv, cacheRow(place.pages, place.position), row, a.latent + a.rope);
}
