//===- KvCache.h - Layout of a layer's KV cache -----------------*- C++ -*-===//
//
// F32, F16, BF16: `capacity` rows of `width` elements, one after the other. If
// a row holds a NaN or an infinity (F16 has one for 65520 and more), its first
// element is stored as NaN: a score of minus infinity would only hide the row.
//
// Q8_0: tiles of kKvTile rows. A row is padded with zeros to whole blocks of
// kKvBlock elements x = scale * (code - 128); the offset makes codes unsigned,
// as one factor of 8-bit products must be. A tile is a multiple of 64 bytes:
//   uint8_t code[padded width / 4][kKvTile][4]
//   float   scale[padded width / kKvBlock][kKvTile]
// One load takes four neighbouring elements of sixteen rows: vpdpbusd then adds
// up each row's products in its own lane, without a sum over lanes, and the
// scales of a block are a vector too. A block with a NaN or an infinity in a
// row has a NaN as that row's scale.
//
// Contents of a row. Latent attention (MLA): [latent | rope key]. Attention
// whose heads have their own keys and values: [key of head 0 | key of head 1 |
// ... | value of head 0 | ...], each key and value padded with zeros to whole
// blocks, for every type: no block spans two heads, which would share its
// scale. There a NaN or an infinity in a head's key or value is stored as a NaN
// in the first element of its key.
//
// A layer whose memory does not grow with the sequence has a state: a cache of
// F32 with one row per sequence, which holds all that the layer keeps of that
// sequence. Gated delta nets: the last inputs of the convolution
// [taps - 1, columns], padded to a whole cache line, then S [heads, key, value]
// (DeltaRuleArgs).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_KVCACHE_H
#define MOE_KERNELS_KVCACHE_H

#include "kernels/Types.h"

namespace moek {

inline constexpr int64_t kKvTile = 16;
/// Number of rows that are allocated to a sequence at a time. It equals the
/// block of kKeyTile keys in attention; a sequence wastes half a page on
/// average.
inline constexpr int64_t kKvPage = 64;
static_assert(kKvPage % kKvTile == 0);
/// With 64 elements and float scales a block takes 8.5 bits per element, as one
/// of 32 elements with F16 scales does, and half the conversions per product.
inline constexpr int64_t kKvBlock = 64;
inline constexpr int64_t kKvZeroCode = 128;

/// Number of blocks in a Q8_0 row.
constexpr int64_t kvBlocks(int64_t width) {
  return (width + kKvBlock - 1) / kKvBlock;
}

/// Number of elements that a head's key or value of `cols` columns takes in a
/// row, padding included.
constexpr int64_t gqaPaddedWidth(int64_t cols) {
  return kvBlocks(cols) * kKvBlock;
}
/// Width of a row with `key` and `value` columns for each of `kvHeads`.
constexpr int64_t gqaKvWidth(int64_t kvHeads, int64_t key, int64_t value) {
  return kvHeads * (gqaPaddedWidth(key) + gqaPaddedWidth(value));
}

/// Bytes of a row; for Q8_0 a tile's bytes divided by its rows.
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

/// Number of rows that are allocated for `capacity` rows: whole tiles for Q8_0.
constexpr int64_t kvRows(KvType type, int64_t capacity) {
  return type == KvType::Q8_0 ? (capacity + kKvTile - 1) / kKvTile * kKvTile
                              : capacity;
}

constexpr int64_t kvBytes(KvType type, int64_t width, int64_t capacity) {
  return kvRowBytes(type, width) * kvRows(type, capacity);
}

/// Bytes from the start of a Q8_0 tile to its scales.
constexpr int64_t kvScaleOffset(int64_t width) {
  return kvBlocks(width) * kKvBlock * kKvTile;
}

/// Number of floats before S in a row of a gated delta net's state;
/// deltaStateWidth() is the width of the whole row.
constexpr int64_t deltaStateBegin(int64_t taps, int64_t columns) {
  return ((taps - 1) * columns + 15) / 16 * 16;
}
constexpr int64_t deltaStateWidth(int64_t taps, int64_t columns, int64_t heads,
                                  int64_t key, int64_t value) {
  return deltaStateBegin(taps, columns) + (heads * key * value + 15) / 16 * 16;
}

/// A layer's cache as seen by one sequence.
struct SequenceCache {
  KvView kv;
  const int32_t *pages; ///< Page numbers of the sequence (see SequenceRows).

  /// Returns the row of the cache that holds `position`.
  [[gnu::always_inline]] int64_t row(int64_t position) const {
    return pages ? pages[position / kKvPage] * kKvPage + position % kKvPage
                 : position;
  }
};

} // namespace moek

#endif // MOE_KERNELS_KVCACHE_H
