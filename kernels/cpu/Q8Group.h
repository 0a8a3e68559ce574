//===- Q8Group.h - A group of Q8_0 rows and queries at work -----*- C++ -*-===//
//
// Attention with integer products, of queries that share keys and values: a
// token's heads on the latent cache, or the tokens of a head on keys and values
// decompressed for it. Both are rows of a Q8_0 cache; on the latent one, blocks
// of a row are key and value at once. Rows go by in groups:
//
//   encode      queries
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
  int64_t queries;    ///< At a time, at most.
  int64_t keyBlocks;  ///< The first ones of a row.
  int64_t valueBegin; ///< First block of the values.
  int64_t values;     ///< Columns.
  int64_t heldBlocks; ///< Of values, that stay transposed.
  float scale;        ///< Of scores.
};

/// `Code` is what queries become.
template <class S, class Code> class Q8Group {
public:
  /// `n` rows from position `at` on, at most kGroup, where a tile begins;
  /// queries see all of them. `next` rows behind them, at most kGroup, will be
  /// read soon.
  void setGroup(const SequenceCache &cache, int64_t at, int64_t n,
                int64_t next) {
    tileBytes = kKvTile * cache.kv.rowStride;
    scaleOffset = kvScaleOffset(cache.kv.width);
    scaledBlock = -1;
    groupTiles = (n + kKvTile - 1) / kKvTile;
    knownTiles = (n + next + kKvTile - 1) / kKvTile;
    for (int64_t t = 0; t < knownTiles; ++t)
      tile[t] = kvTile(cache.kv, cache.row(at + t * kKvTile));
    see(n);
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
    take(scores, shape.queries * kGroup);
    take(words, shape.queries * kGroup);
    take(unit, shape.queries);
    take(alpha, shape.queries);
    take(seen, shape.queries);
    take(rowScale, kGroup);
    take(transposed, shape.heldBlocks * kGroup * kKvBlock);
  }
  template <class T> void take(T *&part, int64_t count) {
    part = reinterpret_cast<T *>(rest);
    rest += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
  }

  /// Scores of query i with the `visible` rows that it sees, now weights; zero
  /// for other rows that are looked at.
  void softmax(int64_t i, int64_t visible, float &most, float &sum) {
    float *p = scores + i * kGroup;
    alpha[i] = softmaxBlock<S>(p, visible, most, sum);
    seen[i] = int32_t(visible);
    int64_t k = (visible + S::kWidth - 1) / S::kWidth * S::kWidth;
    for (; k < tiles * kKvTile; k += S::kWidth)
      S::store(p + k, S::zero());
  }

  /// Whether `rowScale` must be made anew for query i and block b of the
  /// values. Scales are fractions of the largest one that the query sees: a
  /// large one in a later row must not take bits from them.
  bool rescale(int64_t i, int64_t b) {
    bool other = b != scaledBlock || seen[i] != scaledRows;
    scaledBlock = b;
    scaledRows = seen[i];
    return other;
  }
  /// Scales of the group's tile t in block b of the values.
  const float *tileScales(int64_t t, int64_t b) const {
    return reinterpret_cast<const float *>(tile[t] + scaleOffset) +
           (shape.valueBegin + b) * kKvTile;
  }
  /// Codes of the group's tile t in block b of the values.
  const uint8_t *tileCodes(int64_t t, int64_t b) const {
    return tile[t] + (shape.valueBegin + b) * kKvBlock * kKvTile;
  }
  /// Where block b of the values is transposed to.
  uint8_t *place(int64_t b) const {
    return transposed + b % shape.heldBlocks * kGroup * kKvBlock;
  }

  const Q8Shape shape;
  std::byte *rest;

  Code *query;         ///< [queries][keyBlocks][kKvBlock]
  float *queryScale;   ///< [queries][keyBlocks], times the scale of scores.
  int32_t *queryStart; ///< [queries][keyBlocks]: minus zero code times sum.
  float *scores;       ///< [queries][kGroup], then weights.
  int16_t *words;      ///< [queries][kGroup]: weights in units.
  float *unit;         ///< [queries]
  float *alpha;        ///< [queries]: what earlier sums are multiplied by.
  int32_t *seen;       ///< [queries]: rows.
  int16_t *rowScale;   ///< [kGroup]: of `scaledBlock`, in units of
  float rowUnit = 0;   ///< this.
  uint8_t *transposed; ///< [heldBlocks][kGroup * kKvBlock]

  // The group at work.
  /// Its tiles and those of the rows behind it. Where a sequence has pages,
  /// none need lie beside another.
  const uint8_t *tile[2 * kGroup / kKvTile] = {};
  int64_t tileBytes = 0, scaleOffset = 0;
  /// Of its rows; of those that are seen; of those behind it too.
  int64_t groupTiles = 0, tiles = 0, knownTiles = 0;
  int64_t scaledBlock = -1, scaledRows = 0;
};

} // namespace moek

#endif // MOE_KERNELS_CPU_Q8GROUP_H
