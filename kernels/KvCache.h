//===- KvCache.h - Layout of a layer's cache --------------------*- C++ -*-===//
//
// F32, F16, BF16: `capacity` rows of `width` elements, one after the other. A
// row with a NaN or an infinity, such as F16 has for 65520 and more, begins
// with a NaN: minus infinity as a score would only hide the row.
//
// Q8_0: tiles of kKvTile rows. A row is padded with zeros to whole blocks of
// kKvBlock elements x = scale * (code - 128), so that 8-bit products have an
// unsigned factor. A tile, a multiple of 64 bytes:
//   uint8_t code[padded width / 4][kKvTile][4]
//   float   scale[padded width / kKvBlock][kKvTile]
// One load is four neighbouring elements of sixteen rows: vpdpbusd adds up the
// products of each row in a lane of its own, with no sum over lanes, and a
// block's scales are a vector too. A row with a NaN or an infinity in a block
// has a NaN scale there.
//
// What a row holds. Latent attention: [latent | rope key]. Heads with keys and
// values of their own: [key of head 0 | key of head 1 | ... | value of head 0 |
// ...], each part padded with zeros to whole blocks, whatever the type: no
// block has columns of two heads, which its scale would tie together. There a
// NaN or an infinity in a head's key or value shows as a NaN at its key's
// begin.
//
// A layer whose memory does not grow has a state: a cache of F32 whose rows are
// those of sequences, each all that the layer keeps of one. Gated delta nets:
// the convolution's last inputs [taps - 1, columns], padded to a whole cache
// line, then S [heads, key, value] (DeltaRuleArgs).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_KVCACHE_H
#define MOE_KERNELS_KVCACHE_H

#include "kernels/Types.h"

namespace moek {

inline constexpr int64_t kKvTile = 16;
/// Rows that sequences are given at a time. A page is a block of kKeyTile keys;
/// half of one is what a sequence wastes in the mean.
inline constexpr int64_t kKvPage = 64;
static_assert(kKvPage % kKvTile == 0);
/// 64, with scales in float, takes the 8.5 bits an element of 32 with scales in
/// F16, and half the conversions per product.
inline constexpr int64_t kKvBlock = 64;
inline constexpr int64_t kKvZeroCode = 128;

/// Blocks of a Q8_0 row.
constexpr int64_t kvBlocks(int64_t width) {
  return (width + kKvBlock - 1) / kKvBlock;
}

/// Elements from a head's key or value of `cols` to the next in a row.
constexpr int64_t gqaPartWidth(int64_t cols) {
  return kvBlocks(cols) * kKvBlock;
}
/// Of a row with `key` and `value` columns for each of `kvHeads`.
constexpr int64_t gqaKvWidth(int64_t kvHeads, int64_t key, int64_t value) {
  return kvHeads * (gqaPartWidth(key) + gqaPartWidth(value));
}

/// Bytes of a row, of Q8_0 a tile's share.
constexpr int64_t kvRowBytes(KvType type, int64_t width) {
  switch (type) {
  case KvType::F32:
    return width * 4;
  case KvType::F16:
  case KvType::BF16:
    return width * 2;
  case KvType::Q8_0:
    return kvBlocks(width) * (kKvBlock + int64_t(sizeof(float)));
  }
  return 0;
}

/// Rows that are allocated for `capacity` of them: whole tiles.
constexpr int64_t kvRows(KvType type, int64_t capacity) {
  return type == KvType::Q8_0 ? (capacity + kKvTile - 1) / kKvTile * kKvTile
                              : capacity;
}

constexpr int64_t kvBytes(KvType type, int64_t width, int64_t capacity) {
  return kvRowBytes(type, width) * kvRows(type, capacity);
}

/// Bytes from a Q8_0 tile's begin to its scales.
constexpr int64_t kvScaleOffset(int64_t width) {
  return kvBlocks(width) * kKvBlock * kKvTile;
}

/// Floats before S in a row of a gated delta net's state, and of the row.
constexpr int64_t deltaStateBegin(int64_t taps, int64_t columns) {
  return ((taps - 1) * columns + 15) / 16 * 16;
}
constexpr int64_t deltaStateWidth(int64_t taps, int64_t columns, int64_t heads,
                                  int64_t key, int64_t value) {
  return deltaStateBegin(taps, columns) + (heads * key * value + 15) / 16 * 16;
}

/// A layer's cache as one sequence has it.
struct SequenceCache {
  KvView kv;
  const int32_t *pages; ///< See SequenceRows.

  /// The cache's row for `position`.
  [[gnu::always_inline]] int64_t row(int64_t position) const {
    return pages ? pages[position / kKvPage] * kKvPage + position % kKvPage
                 : position;
  }
};

} // namespace moek

#endif // MOE_KERNELS_KVCACHE_H
