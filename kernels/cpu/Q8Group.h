//===- Q8Group.h - Integer attention on groups of Q8_0 rows -----*- C++ -*-===//
//
// Attention with integer products, for queries that share keys and values: the
// heads of a token on a latent cache or in a head group, the tokens of a head,
// or queries on keys and values that were decompressed for them. All rows are
// in the Q8_0 cache layout; in a latent cache a row's blocks are key and value
// at once. Rows are processed in groups:
//
//   encode      quantises the queries; choose() selects some of them
//   setGroup    selects the rows; see() if the queries do not see all of them
//   score       computes the scores
//   weigh       turns a query's scores into weights
//   transpose   transposes a block of the values, once per group
//   sum         adds the weighted values of that block
//
// avx2/Q8Products.h and avx512/Q8Products.h implement these; this is the code
// that they share.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_Q8GROUP_H
#define MOE_KERNELS_CPU_Q8GROUP_H

#include "kernels/cpu/KvRows.h"
#include "kernels/cpu/Softmax.h"

namespace moek {

struct Q8Shape {
  int64_t queries;          ///< Number of queries that are held.
  int64_t mostTogether;     ///< The most queries that are processed together.
  int64_t keyBlocks;        ///< Key blocks of a row.
  int64_t values;           ///< Value columns.
  int64_t transposedBlocks; ///< Number of value blocks that stay transposed.
  float scale;              ///< Factor of the scores.
  float cap = 0;            ///< Softcap of the scores; 0: none.
};

/// `Code` is the element type of encoded queries.
template <class S, class Code> class Q8Group {
public:
  /// Sets the first blocks of keys and values in a row.
  void setColumns(int64_t keys, int64_t values) {
    keyBegin = keys;
    valueBegin = values;
  }
  /// Makes the held query `first` query 0 of the following calls.
  void choose(int64_t first) { chosen = first; }
  /// Selects `n` rows (at most kGroup) from position `at` on, where a tile
  /// begins; queries see all of them. The `next` rows after them (at most
  /// kGroup) will be read soon.
  void setGroup(const RingCache &cache, int64_t at, int64_t n, int64_t next) {
    scaleOffset = kvScaleOffset(cache.kv.width);
    scaledBlock = -1;
    groupTiles = (n + kKvTile - 1) / kKvTile;
    prefetchTiles = (n + next + kKvTile - 1) / kKvTile;
    for (int64_t t = 0; t < prefetchTiles; ++t)
      tile[t] = kvTile(cache.kv, cache.row(at + t * kKvTile));
    see(n);
    ahead = {};
    findPieces(kvBlocks(cache.kv.width));
  }
  /// From here on, queries see at most the group's first `n` rows.
  void see(int64_t n) { tiles = (n + kKvTile - 1) / kKvTile; }

protected:
  static constexpr int64_t kGroup = kQ8Group;
  /// Number of queries in a register block.
  static constexpr int kQueries = kQ8Queries;

  /// Divides the scratch memory; a derived class takes its own from `rest` on.
  Q8Group(const Q8Shape &shape, std::byte *scratch)
      : shape(shape), rest(scratch) {
    take(query, shape.queries * shape.keyBlocks * kKvBlock);
    take(queryScale, shape.queries * shape.keyBlocks);
    take(queryStart, shape.queries * shape.keyBlocks);
    take(scores, shape.mostTogether * kGroup);
    take(words, shape.mostTogether * kGroup);
    take(unit, shape.mostTogether);
    take(alpha, shape.mostTogether);
    take(seenBegin, shape.mostTogether);
    take(seenEnd, shape.mostTogether);
    take(rowScale, kGroup);
    take(transposed, shape.transposedBlocks * kGroup * kKvBlock);
  }
  template <class T> void take(T *&part, int64_t count) {
    part = reinterpret_cast<T *>(rest);
    rest += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
  }

  /// Turns query i's scores for the `visible` rows into weights; the weights of
  /// other rows that are read become zero.
  BlockWeights softmax(int64_t i, Range visible, float &most, float &sum) {
    float *p = scores + i * kGroup;
    BlockWeights weights = softmaxBlock<S>(p, visible, shape.cap, most, sum);
    alpha[i] = weights.alpha;
    seenBegin[i] = int32_t(visible.begin);
    seenEnd[i] = int32_t(visible.end);
    const Range whole = wholeVectors<S>(visible);
    for (int64_t k = 0; k < whole.begin; k += S::kWidth)
      S::store(p + k, S::zero());
    for (int64_t k = whole.end; k < tiles * kKvTile; k += S::kWidth)
      S::store(p + k, S::zero());
    return weights;
  }

  /// Returns whether `rowScale` must be recomputed for query i and block b of
  /// the values. Scales are fractions of the largest one that the query sees: a
  /// large one in a later row must not cost precision.
  bool rescale(int64_t i, int64_t b) {
    bool other = b != scaledBlock || seenBegin[i] != scaledRows.begin ||
                 seenEnd[i] != scaledRows.end;
    scaledBlock = b;
    scaledRows = {seenBegin[i], seenEnd[i]};
    return other;
  }
  /// Key blocks of the group's tile t, and their scales.
  const uint8_t *keyCodes(int64_t t) const {
    return tile[t] + keyBegin * kKvBlock * kKvTile;
  }
  const uint8_t *keyScales(int64_t t) const {
    return tile[t] + scaleOffset + keyBegin * kScaleBytes;
  }
  /// Scales of the group's tile t in block b of the values.
  const float *tileScales(int64_t t, int64_t b) const {
    return reinterpret_cast<const float *>(tile[t] + scaleOffset) +
           (valueBegin + b) * kKvTile;
  }
  /// Codes of the group's tile t in block b of the values.
  const uint8_t *tileCodes(int64_t t, int64_t b) const {
    return tile[t] + (valueBegin + b) * kKvBlock * kKvTile;
  }
  /// Returns where block b of the values is stored transposed.
  uint8_t *place(int64_t b) const {
    return transposed + b % shape.transposedBlocks * kGroup * kKvBlock;
  }

  /// A range of a tile in bytes, whole cache lines.
  struct Piece {
    int64_t begin, bytes;
  };
  /// Iterates over the cache lines to prefetch into L2 while others are
  /// computed with: the pieces that are read of the tiles from `next` on.
  struct Ahead {
    const uint8_t *at, *end;
    const Piece *piece, *lastPiece;
    const uint8_t *const *next, *const *last;

    MOE_INLINE void read(const Piece *pieces) {
      if (at == end) {
        if (piece == lastPiece) {
          if (next == last)
            return;
          piece = pieces;
          ++next;
        }
        at = next[-1] + piece->begin;
        end = at + piece->bytes;
        ++piece;
      }
      __builtin_prefetch(at, 0, 2);
      at += 64;
    }
  };
  /// Starts at the group's tile t and includes the tiles after the group.
  Ahead prefetchFrom(int64_t t) const {
    const Piece *end = pieces + pieceCount;
    return {nullptr, nullptr, end, end, tile + t, tile + prefetchTiles};
  }

  const Q8Shape shape;
  std::byte *rest;

  int64_t chosen = 0;  ///< Index of the held query that calls see as query 0.
  Code *query;         ///< [queries][keyBlocks][kKvBlock]
  float *queryScale;   ///< [queries][keyBlocks], includes the scale of scores.
  int32_t *queryStart; ///< [queries][keyBlocks]: -(zero code) * sum of query.
  float *scores;       ///< [mostTogether][kGroup]; replaced by the weights.
  int16_t *words; ///< [mostTogether][kGroup]: weights in multiples of `unit`.
  float *unit;    ///< [mostTogether]: unit of a query's words.
  float *alpha;   ///< [mostTogether]: factor of the earlier sums.
  int32_t *seenBegin, *seenEnd; ///< [mostTogether]: visible rows of the group.
  int16_t *rowScale;            ///< [kGroup]: scales in multiples of `rowUnit`.
  float rowUnit = 0;            ///< Unit of `rowScale`.
  uint8_t *transposed;          ///< [transposedBlocks][kGroup * kKvBlock]

  // State of the current group.
  /// Its tiles and those of the rows after it. If a sequence has pages, they
  /// need not be adjacent in memory.
  const uint8_t *tile[2 * kGroup / kKvTile] = {};
  int64_t scaleOffset = 0, keyBegin = 0, valueBegin = 0;
  /// Numbers of tiles: of the group, of the rows that are seen, and including
  /// those after the group.
  int64_t groupTiles = 0, tiles = 0, prefetchTiles = 0;
  int64_t scaledBlock = -1;
  Range scaledRows = {};
  /// Ranges of a tile that are read.
  Piece pieces[4] = {};
  int64_t pieceCount = 0, pieceLines = 0;
  Ahead ahead = {};

private:
  /// Bytes of a tile.
  static constexpr int64_t kCodeBytes = kKvBlock * kKvTile;
  static constexpr int64_t kScaleBytes = kKvTile * int64_t(sizeof(float));

  /// Finds the pieces for rows of `blocks` blocks.
  void findPieces(int64_t blocks) {
    const int64_t values = kvBlocks(shape.values);
    pieceCount = 0;
    auto add = [&](int64_t begin, int64_t bytes) {
      pieces[pieceCount++] = {begin, bytes};
    };
    if (shape.keyBlocks == blocks) {
      add(0, scaleOffset + blocks * kScaleBytes);
    } else {
      add(keyBegin * kCodeBytes, shape.keyBlocks * kCodeBytes);
      add(valueBegin * kCodeBytes, values * kCodeBytes);
      add(scaleOffset + keyBegin * kScaleBytes, shape.keyBlocks * kScaleBytes);
      add(scaleOffset + valueBegin * kScaleBytes, values * kScaleBytes);
    }
    pieceLines = 0;
    for (int64_t i = 0; i < pieceCount; ++i)
      pieceLines += pieces[i].bytes / 64;
  }
};

} // namespace moek

#endif // MOE_KERNELS_CPU_Q8GROUP_H
