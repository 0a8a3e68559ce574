//===- KvRow.cuh - Stores rows of a cache -----------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_KVROW_CUH
#define MOE_KERNELS_CUDA_KVROW_CUH

#include "kernels/cuda/KvCache.cuh"

/// Stores elements 2 i and 2 i + 1 of block `b`, of 64 elements, of a row of
/// the cache, where i is the lane. A block of Q8_0 gets the scale largest /
/// 127, and codes round(x / scale) + 128; one with an infinity or NaN gets a
/// NaN as its scale. Returns whether everything stored of the block is finite.
/// All lanes of a warp must call it.
MOE_DEVICE bool storeBlock(const Kv &kv, i64 row, int b, float u, float v) {
  int lane = threadIdx.x % 32;
#if MOE_KV == MOE_KV_Q8_0
  bool isFine = __all_sync(kAllLanes, isFinite(u) && isFinite(v));
  float most = warpMax(fmaxf(fabsf(u), fabsf(v)));
  float inverse = isFine && most >= 1e-36f ? 127 / most : 0;
  int first = inverse != 0 ? __float2int_rn(u * inverse) : 0;
  int second = inverse != 0 ? __float2int_rn(v * inverse) : 0;
  u8 *codes = kvCodes(kv, row) + i64(b) * kKvBlock * kKvTile;
  *(u16 *)(codes + lane / 2 * 64 + lane % 2 * 2) =
      u16((first + 128) | (second + 128) << 8);
  if (lane == 0)
    *kvScale(kv, row, b) = !isFine ? nanValue() : inverse != 0 ? most / 127 : 0;
  return isFine;
#else
  int column = b * kKvBlock + 2 * lane;
  float x = storeKv(kv, row, column, u), y = storeKv(kv, row, column + 1, v);
  return __all_sync(kAllLanes, isFinite(x) && isFinite(y));
#endif
}

#if MOE_KV == MOE_KV_Q8_0
/// Stores the `width` floats at `row`, in shared memory with room for whole
/// blocks of 64, as row `to` of a cache. All threads of a block must call it.
MOE_DEVICE void storeRow(const Kv &kv, i64 to, float *row, int width) {
  int lane = threadIdx.x % 32, blocks = kvBlocks(kv.width);
  for (int c = width + threadIdx.x; c < blocks * kKvBlock; c += blockDim.x)
    row[c] = 0;
  __syncthreads();
  for (int b = threadIdx.x / 32; b < blocks; b += blockDim.x / 32) {
    const float *x = row + b * kKvBlock + 2 * lane;
    storeBlock(kv, to, b, x[0], x[1]);
  }
}
#else
/// The same for other types, of any width. If a row has a value that is not
/// finite (in F16, 65520 and more), its first element is stored as NaN.
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
