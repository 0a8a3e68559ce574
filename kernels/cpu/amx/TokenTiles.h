//===- TokenTiles.h - Arranges activations as AMX tiles ---------*- C++ -*-===//
//
// A tile's rows must be equally far apart in memory. Tokens of a dense product
// are; tokens that chose an expert are not, and the last tile may have more
// rows than there are tokens. Such tiles are copied first. That is a load and a
// store per token and 64 columns, which take 4 cycles to multiply with 64
// weight rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_TOKENTILES_H
#define MOE_KERNELS_CPU_AMX_TOKENTILES_H

#include "kernels/cpu/amx/Tile.h"

#include <immintrin.h>

namespace moek::amx {
namespace {

/// Divides `tokens` into as few tiles as possible, all of `rows` rows; only the
/// last has rows without a token. Equal tiles need only one configuration, and
/// a product takes as many cycles as its tile of tokens has rows.
struct TileSplit {
  int64_t count, rows;
};
MOE_INLINE TileSplit splitTokens(int64_t tokens) {
  int64_t count = (tokens + kTileRows - 1) / kTileRows;
  return {count, (tokens + count - 1) / count};
}

/// Whether row t is at act[0] + t * stride for all t.
MOE_INLINE bool haveStride(const uint8_t *const *act, int64_t tokens,
                           int64_t stride) {
  for (int64_t t = 1; t < tokens; ++t)
    if (uintptr_t(act[t]) - uintptr_t(act[t - 1]) != uintptr_t(stride))
      return false;
  return true;
}

/// Calls fn(SizeConstant of tiles, the first tile) for pairs of the `count`
/// tiles of tokens, and for a single one that is left.
template <class Fn> MOE_INLINE void forTilePairs(int64_t count, Fn &&fn) {
  int64_t i = 0;
  for (; i + 2 <= count; i += 2)
    fn(SizeConstant<2>(), i);
  if (i < count)
    fn(SizeConstant<1>(), i);
}

/// Calls fn(SizeConstant of weight tiles, the first row, masks of the rows that
/// exist) for pairs of weight tiles, and for a single one that is left, of
/// `rows` rows.
template <class Fn> MOE_INLINE void forRowPairs(int64_t rows, Fn &&fn) {
  for (int64_t r = 0; r < rows; r += 2 * kTileRows) {
    int64_t left = rows - r;
    __mmask16 masks[2] = {
        __mmask16(left >= 16 ? 0xffff : (1 << left) - 1),
        __mmask16(left >= 32 ? 0xffff : (1 << ((left - 16) & 15)) - 1)};
    if (left > kTileRows)
      fn(SizeConstant<2>(), r, masks);
    else
      fn(SizeConstant<1>(), r, masks);
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_TOKENTILES_H
