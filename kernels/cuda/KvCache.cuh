//===- KvCache.cuh - Access to cache rows (kernels/KvCache.h) ---*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_KVCACHE_CUH
#define MOE_KERNELS_CUDA_KVCACHE_CUH

#include "kernels/cuda/Device.cuh"

// Values of moek::KvType. MOE_KV is the type of the cache that a kernel is
// compiled for.
#define MOE_KV_F32 0
#define MOE_KV_F16 1
#define MOE_KV_BF16 2
#define MOE_KV_Q8_0 3

/// Positions of a page; and of Q8_0, rows of a tile and columns of a block.
constexpr int kKvPage = 64, kKvTile = 16, kKvBlock = 64;

/// Returns the row of the cache that holds `position`.
MOE_DEVICE i64 cacheRow(const int *pages, int position) {
  return pages ? i64(pages[position / kKvPage]) * kKvPage + position % kKvPage
               : position;
}

/// The same for a cache in which sequences may have a ring of `ring` rows
/// instead of pages; `ring` is 0 if they have pages.
MOE_DEVICE i64 cacheRow(const int *pages, int state, int ring, int position) {
  return ring > 0 ? i64(state) * ring + position % ring
                  : cacheRow(pages, position);
}

/// Returns how many entries (or blocks of positions), which are `ratio`
/// positions each, a token at `position` sees: the complete ones, or with
/// `local` those before its last `local` ones. As in kernels/Entries.h.
MOE_DEVICE int entriesSeen(int position, int ratio, int local) {
  if (ratio <= 0)
    return 0;
  return local == 0 ? (position + 1) / ratio
                    : max(position / ratio + 1 - local, 0);
}

MOE_DEVICE int kvBlocks(i64 width) {
  return int((width + kKvBlock - 1) / kKvBlock);
}
/// Returns where a row's codes begin in a Q8_0 cache: columns 4 i .. 4 i + 3
/// are the four bytes at 64 i, between those of the fifteen other rows of its
/// tile.
MOE_DEVICE u8 *kvCodes(const Kv &kv, i64 row) {
  return kv.data + row / kKvTile * kKvTile * kv.rowStride + row % kKvTile * 4;
}
/// Returns the scale of columns 64 `block` .. 64 `block` + 63 of a row. A
/// tile's scales follow its codes as [blocks][16 rows].
MOE_DEVICE float *kvScale(const Kv &kv, i64 row, int block) {
  return (float *)(kv.data + row / kKvTile * kKvTile * kv.rowStride +
                   i64(kvBlocks(kv.width)) * kKvBlock * kKvTile) +
         block * kKvTile + row % kKvTile;
}

template <int Type> MOE_DEVICE float loadKvAs(const Kv &kv, i64 row, int col) {
  if constexpr (Type == MOE_KV_Q8_0) {
    int code = kvCodes(kv, row)[col / 4 * 64 + col % 4];
    return *kvScale(kv, row, col / kKvBlock) * float(code - 128);
  } else {
    const u8 *p = kv.data + row * kv.rowStride;
    if constexpr (Type == MOE_KV_F32)
      return ((const float *)p)[col];
    else if constexpr (Type == MOE_KV_F16)
      return f16ToFloat(((const u16 *)p)[col]);
    else
      return bf16ToFloat(((const u16 *)p)[col]);
  }
}

#ifdef MOE_KV
MOE_DEVICE float loadKv(const Kv &kv, i64 row, int col) {
  return loadKvAs<MOE_KV>(kv, row, col);
}

#if MOE_KV != MOE_KV_Q8_0
/// Stores an element and returns the value as stored.
MOE_DEVICE float storeKv(const Kv &kv, i64 row, int col, float x) {
  u8 *p = kv.data + row * kv.rowStride;
#if MOE_KV == MOE_KV_F32
  ((float *)p)[col] = x;
  return x;
#elif MOE_KV == MOE_KV_F16
  u16 bits = floatToF16(x);
  ((u16 *)p)[col] = bits;
  return f16ToFloat(bits);
#else
  u16 bits = floatToBf16(x);
  ((u16 *)p)[col] = bits;
  return bf16ToFloat(bits);
#endif
}
#endif
#endif // MOE_KV

#endif // MOE_KERNELS_CUDA_KVCACHE_CUH
