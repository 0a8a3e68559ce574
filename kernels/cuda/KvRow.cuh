//===- KvRow.cuh - Stores a cache row from shared memory --------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_KVROW_CUH
#define MOE_KERNELS_CUDA_KVROW_CUH

#include "kernels/cuda/KvCache.cuh"

#if MOE_KV == MOE_KV_Q8_0
/// Stores the `width` floats at `row`, in shared memory with room for whole
/// blocks of 64, as row `to` of a cache. Each block gets the scale largest /
/// 127, and codes round(x / scale) + 128; a block with an infinity or NaN gets
/// a NaN as its scale. All threads of a block must call it. A warp takes a
/// block of 64 elements, a lane the elements 2 i and 2 i + 1.
MOE_DEVICE void storeRow(const Kv &kv, i64 to, float *row, int width) {
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
/// The same for other types. If a row has a value that is not finite (in F16,
/// 65520 and more), its first element is stored as NaN.
MOE_DEVICE void storeRow(const Kv &kv, i64 to, float *row, int width) {
  __syncthreads();
  bool isBroken = false;
  for (int c = threadIdx.x; c < width; c += blockDim.x)
    isBroken |= !isFinite(storeKv(kv, to, c, row[c]));
  if (__syncthreads_or(isBroken) && threadIdx.x == 0)
    storeKv(kv, to, 0, nanValue());
}
#endif

#endif // MOE_KERNELS_CUDA_KVROW_CUH
