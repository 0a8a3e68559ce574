//===- QueryTiles.h - Attention of many tokens ------------------*- C++ -*-===//
//
// The outer loop is over blocks of keys and values, the inner loop over tiles
// of kQueryTile tokens of a head: the cost of preparing a block is shared by
// all tiles that see it. Running maxima and sums are kept in scratch; weighted
// sums accumulate in the output.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_QUERYTILES_H
#define MOE_KERNELS_CPU_QUERYTILES_H

#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// Returns which of a block's `count` rows the i-th of neighbouring tokens
/// sees: the last `window` rows before row toFirst + i.
struct Visible {
  int64_t toFirst, window, count;

  MOE_INLINE Range operator()(int64_t i) const {
    return {inBlock(toFirst + i - window), inBlock(toFirst + i)};
  }

private:
  MOE_INLINE int64_t inBlock(int64_t row) const {
    return row < 0 ? 0 : row < count ? row : count;
  }
};

/// Queries of neighbouring tokens for one head.
struct QueryTile {
  /// Head in the group; first token; number of tokens.
  int64_t head, first, count;
  float *most, *sum; ///< Running maximum and sum of each query.
  Visible visible;
  bool fresh; ///< Whether the block is the first one for these queries.
};

/// A block of rows as floats. Keys are transposed, so that scores are sums of
/// columns like the weighted sums: this avoids sums over lanes, which take as
/// long as a third of a key's products.
template <class S> class FloatTile {
public:
  /// Takes the scratch memory that it needs from the start of `scratch`.
  FloatTile(int64_t width, float scale, float cap, std::byte *&scratch)
      : width(width), scale(scale), cap(cap) {
    columns = reinterpret_cast<float *>(scratch);
    scores = columns + width * kKeyTile;
    alpha = scores + kQueryTile * kKeyTile;
    scratch = reinterpret_cast<std::byte *>(alpha + scratchFloats(kQueryTile));
  }

  /// Stores columns `first` ... of keys that begin at row `begin` of the block,
  /// a multiple of kPanel, and are the block's last ones or fill panels;
  /// multiplied by the scale of scores. What is left of the last panel becomes
  /// zero.
  void setKeys(Rows from, int64_t begin, int64_t n, int64_t first,
               int64_t count) {
    constexpr int64_t kKeys = kPanel<S>;
    for (int64_t p = 0; p < n; p += kKeys) {
      const int64_t held = n - p < kKeys ? n - p : kKeys;
      float *to = columns + (begin + p) * width + first * kKeys;
      const float *row = from.data + p * from.stride;
      if (held < kKeys)
        std::memset(to, 0, size_t(count * kKeys) * sizeof(float));
      int64_t k = 0;
      if constexpr (kKeys > 1)
        for (; k + 4 <= held; k += 4, row += 4 * from.stride) {
          int64_t c = 0;
          for (; c + 4 <= count; c += 4)
            S::transpose4(row + c, from.stride, scale, to + c * kKeys + k,
                          kKeys);
          for (; c < count; ++c)
            for (int64_t i = 0; i < 4; ++i)
              to[c * kKeys + k + i] = scale * row[i * from.stride + c];
        }
      for (; k < held; ++k, row += from.stride)
        for (int64_t c = 0; c < count; ++c)
          to[c * kKeys + k] = scale * row[c];
    }
  }

  /// Adds a tile's queries `q` times this block to `out`: sums of `cols`
  /// columns of `values`, which are Rows or Panels.
  template <class V>
  void attend(Rows q, const QueryTile &tile, V values, int64_t cols, float *out,
              int64_t outStride) {
    // Computed in whole panels; the weights of rows past those that a query
    // sees are not used.
    static_assert(kKeyTile % kPanel<S> == 0);
    const Visible &visible = tile.visible;
    const Range first = visible(0), last = visible(tile.count - 1);
    sumRows<S>(q, tile.count, {true}, Panels{columns, width}, width,
               (last.end + kPanel<S> - 1) / kPanel<S> * kPanel<S>, scores,
               kKeyTile);
    for (int64_t i = 0; i < tile.count; ++i)
      alpha[i] = softmaxBlock<S>(scores + i * kKeyTile, visible(i), cap,
                                 tile.most[i], tile.sum[i])
                     .alpha;
    // The rows that all queries see come first. The others, on the diagonal and
    // at the start of the window, are added query by query, because a weight of
    // zero would not hide a NaN in a row that the query does not see.
    Range common{last.begin, first.end > last.begin ? first.end : last.begin};
    auto add = [&](int64_t i, int64_t count, Range rows, Start start) {
      sumRows<S>(Rows{scores + i * kKeyTile + rows.begin, kKeyTile}, count,
                 start, rowsBehind<S>(values, rows.begin),
                 rows.end - rows.begin, cols, out + i * outStride, outStride);
    };
    add(0, tile.count, common, {tile.fresh, alpha});
    for (int64_t i = 0; i < tile.count; ++i) {
      Range seen = visible(i);
      Range before{seen.begin,
                   seen.end < common.begin ? seen.end : common.begin};
      Range behind{seen.begin > common.end ? seen.begin : common.end, seen.end};
      if (before.begin < before.end)
        add(i, 1, before, {false});
      if (behind.begin < behind.end)
        add(i, 1, behind, {false});
    }
  }

private:
  int64_t width;
  float scale, cap;
  float *columns; ///< [kKeyTile / kPanel][width][kPanel]
  float *scores, *alpha;
};

/// Like FloatTile::attend() with integer products. Here a weight of zero does
/// hide a NaN in a row that is not seen: codes cannot be NaN, and only the
/// scales of rows that a query sees are used. The rows are the current group of
/// `products`, with its values transposed.
template <class Products>
void attendTile(Products &products, const QueryTile &tile, int64_t valueBlocks,
                float *out, int64_t outStride) {
  products.see(tile.visible(tile.count - 1).end);
  products.score(tile.count);
  for (int64_t i = 0; i < tile.count; ++i)
    products.weigh(i, tile.visible(i), tile.most[i], tile.sum[i]);
  for (int64_t b = 0; b < valueBlocks; ++b)
    products.sum(tile.count, b, tile.fresh, out, outStride);
}

/// Tokens of a sequence and the cache rows that they read.
struct TileWork {
  int64_t position; ///< Position of the sequence's first token.
  Range tokens;     ///< Starts at a multiple of kQueryTile.
  Range keys;       ///< Positions that at least one of these tokens sees.
  int64_t window;
  int64_t heads; ///< Number of heads that share blocks.
  /// Per head `stride` floats, of which one per token is used.
  float *most, *sum;
  int64_t stride;
};

/// Calls, for all heads and tokens, blocks.setBlock(first, n) with the rows of
/// `n` positions and blocks.attend(tile) for each tile that sees some of them.
template <class Blocks> void attendTiles(const TileWork &w, Blocks &blocks) {
  for (int64_t first = w.keys.begin; first < w.keys.end;
       first += Blocks::kRows) {
    int64_t left = w.keys.end - first;
    int64_t n = left < Blocks::kRows ? left : Blocks::kRows;
    blocks.setBlock(first, n);
    // Start at the first tile whose last query sees the block.
    int64_t t = (first - w.position) / kQueryTile * kQueryTile;
    for (t = t > w.tokens.begin ? t : w.tokens.begin; t < w.tokens.end;
         t += kQueryTile) {
      int64_t begin = w.position + t + 1 - w.window;
      if (begin < 0)
        begin = 0;
      if (begin >= first + n)
        break; // Windows of later tiles begin even later.
      int64_t count =
          w.tokens.end - t < kQueryTile ? w.tokens.end - t : kQueryTile;
      for (int64_t h = 0; h < w.heads; ++h) {
        int64_t at = h * w.stride + t - w.tokens.begin;
        blocks.attend({h,
                       t,
                       count,
                       w.most + at,
                       w.sum + at,
                       {w.position + t + 1 - first, w.window, n},
                       begin >= first});
      }
    }
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_QUERYTILES_H
