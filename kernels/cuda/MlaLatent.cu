// MlaLatent: the norm of a token's latent and its rotated key become a row of
// the cache. A block is a token; the row is put together in shared memory.

#include "kernels/cuda/KvCache.cuh"
#include "kernels/cuda/Rms.cuh"

extern __shared__ float row[]; // [latent + rope], of Q8_0 in whole blocks

#if MOE_KV == MOE_KV_Q8_0
/// A warp takes a block of 64, a lane neighbours 2 i and 2 i + 1.
MOE_DEVICE void storeRow(const Kv &kv, i64 to, int width) {
  int lane = threadIdx.x % 32, blocks = kvBlocks(kv.width);
  for (int c = width + threadIdx.x; c < blocks * kKvBlock; c += blockDim.x)
    row[c] = 0;
  __syncthreads();
  for (int b = threadIdx.x / 32; b < blocks; b += blockDim.x / 32) {
    float u = row[b * kKvBlock + 2 * lane],
          v = row[b * kKvBlock + 2 * lane + 1];
    bool isBroken = __any_sync(kAllLanes, !isFinite(u) || !isFinite(v));
    float most = warpMax(fmaxf(fabsf(u), fabsf(v)));
    float inverse = !isBroken && most >= 1e-36f ? 127 / most : 0;
    int first = inverse != 0 ? __float2int_rn(u * inverse) : 0;
    int second = inverse != 0 ? __float2int_rn(v * inverse) : 0;
    u8 *codes = kvCodes(kv, to) + i64(b) * kKvBlock * kKvTile;
    *(u16 *)(codes + lane / 2 * 64 + lane % 2 * 2) =
        u16((first + 128) | (second + 128) << 8);
    if (lane == 0)
      *kvScale(kv, to, b) = isBroken       ? nanValue()
                            : inverse != 0 ? most / 127
                                           : 0;
  }
}
#else
/// A row with something that is not finite, such as F16 has for 65520 and more,
/// begins with a NaN.
MOE_DEVICE void storeRow(const Kv &kv, i64 to, int width) {
  __syncthreads();
  bool isBroken = false;
  for (int c = threadIdx.x; c < width; c += blockDim.x)
    isBroken |= !isFinite(storeKv(kv, to, c, row[c]));
  if (__syncthreads_or(isBroken) && threadIdx.x == 0)
    storeKv(kv, to, 0, nanValue());
}
#endif

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
  storeRow(a.kv, cacheRow(place.pages, place.position), a.latent + a.rope);
}
