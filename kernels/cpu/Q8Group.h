//===- Q8Group.h - A group of Q8_0 rows and queries at work -----*- C++ -*-===//
//
// Attention with integer products, of queries that share keys and values: a
// token's heads on the latent cache or on those of a head, or the tokens of a
// head on such, or on keys and values decompressed for it. All are rows of a
// Q8_0 cache; on the latent one, blocks of a row are key and value at once.
// Rows go by in groups:
//
//   encode      queries; choose() of those that are held
//   setGroup    rows; see() where these queries do not see all of them
//   score
//   weigh       a query's scores become weights
//   transpose   a block of the values, once a group
//   sum         that block
//
// avx2/Q8Products.h and avx512/Q8Products.h do it; this is what they share.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_Q8GROUP_H
#define MOE_KERNELS_CPU_Q8GROUP_H

#include "kernels/cpu/KvRows.h"
#include "kernels/cpu/Softmax.h"

namespace moek {

struct Q8Shape {
  int64_t queries;    ///< That are held.
  int64_t atATime;    ///< Of those, at most.
  int64_t keyBlocks;  ///< Of a row.
  int64_t values;     ///< Columns.
  int64_t heldBlocks; ///< Of values, that stay transposed.
  float scale;        ///< Of scores.
  float cap = 0;      ///< Of scores, 0 for none.
};

/// `Code` is what queries become.
template <class S, class Code> class Q8Group {
public:
  /// Where a row's keys and values are: blocks.
  void setColumns(int64_t keys, int64_t values) {
    keyBegin = keys;
    valueBegin = values;
  }
  /// Queries are from here on those that are held from `first` on.
  void choose(int64_t first) { chosen = first; }
  /// `n` rows from position `at` on, at most kGroup, where a tile begins;
  /// queries see all of them. `next` rows behind them, at most kGroup, will be
  /// read soon.
  void setGroup(const RingCache &cache, int64_t at, int64_t n, int64_t next) {
    scaleOffset = kvScaleOffset(cache.kv.width);
    scaledBlock = -1;
    groupTiles = (n + kKvTile - 1) / kKvTile;
    knownTiles = (n + next + kKvTile - 1) / kKvTile;
    for (int64_t t = 0; t < knownTiles; ++t)
      tile[t] = kvTile(cache.kv, cache.row(at + t * kKvTile));
    see(n);
    ahead = {};
    findPieces(kvBlocks(cache.kv.width));
  }
  /// Queries from here on see no more than the group's first `n` rows.
  void see(int64_t n) { tiles = (n + kKvTile - 1) / kKvTile; }

protected:
  static constexpr int64_t kGroup = kQ8Group;
  static constexpr int kQueries = kQ8Queries; ///< Of a register block.

  /// Lays scratch out; what a derived class has of its own comes after `rest`.
  Q8Group(const Q8Shape &shape, std::byte *scratch)
      : shape(shape), rest(scratch) {
    take(query, shape.queries * shape.keyBlocks * kKvBlock);
    take(queryScale, shape.queries * shape.keyBlocks);
    take(queryStart, shape.queries * shape.keyBlocks);
    take(scores, shape.atATime * kGroup);
    take(words, shape.atATime * kGroup);
    take(unit, shape.atATime);
    take(alpha, shape.atATime);
    take(seenBegin, shape.atATime);
    take(seenEnd, shape.atATime);
    take(rowScale, kGroup);
    take(transposed, shape.heldBlocks * kGroup * kKvBlock);
  }
  template <class T> void take(T *&part, int64_t count) {
    part = reinterpret_cast<T *>(rest);
    rest += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
  }

  /// Scores of query i with the `visible` rows that it sees, now weights; zero
  /// for other rows that are looked at.
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

  /// Whether `rowScale` must be made anew for query i and block b of the
  /// values. Scales are fractions of the largest one that the query sees: a
  /// large one in a later row must not take bits from them.
  bool rescale(int64_t i, int64_t b) {
    bool other = b != scaledBlock || seenBegin[i] != scaledRows.begin ||
                 seenEnd[i] != scaledRows.end;
    scaledBlock = b;
    scaledRows = {seenBegin[i], seenEnd[i]};
    return other;
  }
  /// Key blocks and their scales of the group's tile t.
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
  /// Where block b of the values is transposed to.
  uint8_t *place(int64_t b) const {
    return transposed + b % shape.heldBlocks * kGroup * kKvBlock;
  }

  /// Part of a tile, in bytes, whole cache lines.
  struct Piece {
    int64_t begin, bytes;
  };
  /// Lines of the cache on their way to L2 while others are computed with: of
  /// the tiles from `next` on those pieces that are read.
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
  /// Tiles from the group's t-th on, of the rows behind it too.
  Ahead aheadFrom(int64_t t) const {
    const Piece *end = pieces + pieceCount;
    return {nullptr, nullptr, end, end, tile + t, tile + knownTiles};
  }

  const Q8Shape shape;
  std::byte *rest;

  int64_t chosen = 0;  ///< Which of those held is query 0 of what follows.
  Code *query;         ///< [queries][keyBlocks][kKvBlock]
  float *queryScale;   ///< [queries][keyBlocks], times the scale of scores.
  int32_t *queryStart; ///< [queries][keyBlocks]: minus zero code times sum.
  float *scores;       ///< [atATime][kGroup], then weights.
  int16_t *words;      ///< [atATime][kGroup]: weights in units.
  float *unit;         ///< [atATime]
  float *alpha;        ///< [atATime]: what earlier sums are multiplied by.
  int32_t *seenBegin, *seenEnd; ///< [atATime]: rows of the group.
  int16_t *rowScale;            ///< [kGroup]: of `scaledBlock`, in units of
  float rowUnit = 0;            ///< this.
  uint8_t *transposed;          ///< [heldBlocks][kGroup * kKvBlock]

  // The group at work.
  /// Its tiles and those of the rows behind it. Where a sequence has pages,
  /// none need lie beside another.
  const uint8_t *tile[2 * kGroup / kKvTile] = {};
  int64_t scaleOffset = 0, keyBegin = 0, valueBegin = 0;
  /// Of its rows; of those that are seen; of those behind it too.
  int64_t groupTiles = 0, tiles = 0, knownTiles = 0;
  int64_t scaledBlock = -1;
  Range scaledRows = {};
  /// What is read of a tile.
  Piece pieces[4] = {};
  int64_t pieceCount = 0, pieceLines = 0;
  Ahead ahead = {};

private:
  static constexpr int64_t kCodeBytes = kKvBlock * kKvTile; ///< Of a block.
  static constexpr int64_t kScaleBytes = kKvTile * int64_t(sizeof(float));

  /// Of rows of so many blocks.
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
