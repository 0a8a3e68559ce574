//===- Entries.h - Cache rows that stand for several positions --*- C++ -*-===//
//
// Sparse attention scores and chooses entries: rows of a cache that stand for
// `ratio` positions each. Entry i is made of positions i * ratio ... (i + 1) *
// ratio - 1 and lies in the row of the last of them. The token at position p
// sees the first (p + 1) / ratio entries.
//
// Attention to blocks chooses among entries too, but always reads the last
// `local` of them, the one that p is in included: a token may choose only from
// those before. With local = 0 it always reads the positions behind the last
// complete entry.
//
// This header has the private memory of the instructions that work on entries,
// as kernels/Scratch.h has that of others, and the states of Compress and
// ShortConv. Gemms are compiled with Scratch.h, and not with this.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ENTRIES_H
#define MOE_KERNELS_ENTRIES_H

#include "kernels/Scratch.h"

namespace moek {

/// Returns how many entries the token at `position` sees and, if it reads the
/// last `local` of them anyway, may choose from. Every token reads the
/// positions from the first that no such entry has.
[[gnu::always_inline]] constexpr int64_t
entriesSeen(int64_t position, int64_t ratio, int64_t local = 0) {
  if (ratio <= 0)
    return 0;
  if (local == 0)
    return (position + 1) / ratio;
  int64_t before = position / ratio + 1 - local;
  return before > 0 ? before : 0;
}

/// IndexScores and BlockScores: a block of keys as floats, and their products
/// with each head.
constexpr int64_t indexScoresScratchBytes(int64_t heads, int64_t key) {
  return kKeyTile * (scratchFloats(key) + heads) * 4;
}
/// The number of bits by which IndexSelect sorts scores in each pass.
inline constexpr int64_t kSelectBits = 11;
constexpr int64_t indexSelectScratchBytes() {
  return (int64_t(1) << kSelectBits) * 4;
}
/// SparseAttention: a block of rows as floats, and for a token's heads the
/// scores, running maxima and sums, and rescaling factors.
constexpr int64_t sparseAttentionScratchBytes(int64_t heads, int64_t key) {
  return (kKeyTile * (scratchFloats(key) + heads) + 3 * scratchFloats(heads)) *
         4;
}
/// BlockAttention: a tile of keys and of values as floats, and for the heads of
/// a group, at most all, the scores, running maxima and sums, and rescaling
/// factors.
constexpr int64_t blockAttentionScratchBytes(int64_t heads, int64_t key,
                                             int64_t value) {
  return (kKeyTile * (scratchFloats(key) + scratchFloats(value) + heads) +
          3 * scratchFloats(heads)) *
         4;
}
/// Number of floats in a row of the state of a ShortConv of its own.
constexpr int64_t convStateWidth(int64_t taps, int64_t dilation,
                                 int64_t columns) {
  return ((taps - 1) * dilation * columns + 15) / 16 * 16;
}
/// Number of floats in a row of the state of Compress.
constexpr int64_t compressStateWidth(int64_t columns, bool overlap) {
  return ((overlap ? 9 : 3) * columns + 15) / 16 * 16;
}

} // namespace moek

#endif // MOE_KERNELS_ENTRIES_H
