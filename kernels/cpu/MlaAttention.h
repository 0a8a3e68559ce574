//===- MlaAttention.h - Attention on decompressed keys and values ---------===//
//
// Decompressing a cached row for one head costs (nope + value) * latent
// multiply-adds, as much as some 400 queries spend on it. So a worker takes a
// head, goes over the cache in blocks, decompresses a block once and lets all
// its queries (up to kQuerySpan) pass in tiles: key blocks are the outer loop,
// queries the inner one. Running maxima and sums of the span are kept in
// scratch, weighted sums grow in the output.
//
// V2-Lite: kKeyTile cache rows are 144 KiB as floats, their keys and values 80.
// A group of 256 rows is 85 KiB as Q8_0, its values transposed another 32.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_MLAATTENTION_H
#define MOE_KERNELS_CPU_MLAATTENTION_H

#include "kernels/cpu/HeadRows.h"
#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// How many of a block's `count` rows the i-th of neighbouring queries sees.
struct Visible {
  int64_t toFirst, count;

  MOE_INLINE int64_t operator()(int64_t i) const {
    int64_t rows = toFirst + i;
    return rows < 0 ? 0 : rows < count ? rows : count;
  }
};

/// What a tile of queries gathers.
struct QueryTile {
  int64_t first, count;
  float *most, *sum; ///< Running, of each.
};

/// Blocks of rows in floats. Keys are transposed: then scores are sums of
/// columns like the weighted sums are, with no sum over lanes, which takes as
/// long as a third of a key's products.
template <class S> class FloatHead {
public:
  static constexpr int64_t kRows = kKeyTile;

  FloatHead(const MlaAttentionArgs &args, std::byte *scratch)
      : a(args), width(a.nope + a.rope), rows(a, scratch) {
    columns = reinterpret_cast<float *>(scratch);
    scores = columns + width * kKeyTile;
    alpha = scores + kQueryTile * kKeyTile;
  }

  /// Head `ofHead` of a sequence's queries.
  void setHead(const SequenceRows &sequence, int64_t ofHead) {
    cache = {a.kv, sequence.pages};
    head = ofHead;
    q = a.q + sequence.begin * a.qStride + head * width;
    out = a.out + sequence.begin * a.outStride + head * a.value;
  }

  /// The rows of `n` positions.
  void setBlock(int64_t first, int64_t n) {
    fresh = first == 0;
    rows.read(cache, head, first, n);
    transpose(rows.keys(), n, a.nope, columns);
    transpose(rows.ropeKeys(), n, a.rope, columns + a.nope * kKeyTile);
    values = rows.values();
  }

  void attend(const QueryTile &tile, const Visible &visible) {
    // In whole vectors; the weights of rows past those a query sees are not
    // looked at.
    constexpr int64_t kColumns = S::kSumVecs * S::kWidth;
    static_assert(kKeyTile % kColumns == 0);
    int64_t seen = visible(tile.count - 1);
    sumRows<S>({q + tile.first * a.qStride, a.qStride}, tile.count, {true},
               {columns, kKeyTile}, width,
               (seen + kColumns - 1) / kColumns * kColumns, scores, kKeyTile);
    for (int64_t i = 0; i < tile.count; ++i)
      alpha[i] = softmaxBlock<S>(scores + i * kKeyTile, visible(i),
                                 tile.most[i], tile.sum[i]);
    // What the first query sees all see; the rest, on the diagonal, goes row by
    // row, as a weight of zero would not hide a NaN.
    int64_t common = visible(0);
    float *to = out + tile.first * a.outStride;
    sumRows<S>({scores, kKeyTile}, tile.count, {fresh, alpha}, values, common,
               a.value, to, a.outStride);
    for (int64_t i = 1; i < tile.count; ++i)
      sumRows<S>({scores + i * kKeyTile + common, kKeyTile}, 1, {false},
                 {values.data + common * values.stride, values.stride},
                 visible(i) - common, a.value, to + i * a.outStride,
                 a.outStride);
  }

private:
  /// `n` rows, times the scale of scores, to columns of kKeyTile; rows past the
  /// last are zero.
  void transpose(Rows from, int64_t n, int64_t count, float *to) const {
    for (int64_t c = 0; c < count; ++c, to += kKeyTile) {
      for (int64_t k = 0; k < n; ++k)
        to[k] = a.scale * from.data[k * from.stride + c];
      for (int64_t k = n; k < kKeyTile; ++k)
        to[k] = 0;
    }
  }

  const MlaAttentionArgs &a;
  int64_t width;
  HeadRows<S> rows;
  float *columns, *scores, *alpha;
  Rows values = {};
  SequenceCache cache = {};
  int64_t head = 0;
  const float *q = nullptr;
  float *out = nullptr;
  bool fresh = false;
};

/// Where the cache is Q8_0 decompressed rows become as much: in tiles like
/// those of a cache, [keys | rope keys | values] in whole blocks each. Products
/// are integer ones, in which a row that is not seen, of weight zero, hides a
/// NaN too: codes have none, and scales are those that a query sees.
template <class S> class Q8Head {
public:
  static constexpr int64_t kRows = kQ8Group;

  Q8Head(const MlaAttentionArgs &args, std::byte *scratch)
      : a(args), ropeBegin(kvBlocks(a.nope)),
        valueBegin(ropeBegin + kvBlocks(a.rope)),
        valueBlocks(kvBlocks(a.value)), rows(a, scratch),
        group(takeGroup(scratch)), products({kQueryTile, valueBegin, valueBegin,
                                             a.value, valueBlocks, a.scale},
                                            scratch) {}

  void setHead(const SequenceRows &sequence, int64_t ofHead) {
    cache = {a.kv, sequence.pages};
    head = ofHead;
    q = a.q + sequence.begin * a.qStride + head * (a.nope + a.rope);
    out = a.out + sequence.begin * a.outStride + head * a.value;
  }

  void setBlock(int64_t first, int64_t n) {
    fresh = first == 0;
    for (int64_t at = 0; at < n; at += kKeyTile) {
      int64_t count = n - at < kKeyTile ? n - at : kKeyTile;
      rows.read(cache, head, first + at, count);
      write(rows.keys(), at, count, 0, a.nope);
      write(rows.ropeKeys(), at, count, ropeBegin, a.rope);
      write(rows.values(), at, count, valueBegin, a.value);
      for (int64_t k = at; k < at + count; ++k)
        markNaN(k);
    }
    products.setGroup({group, nullptr}, 0, n, 0);
    for (int64_t b = 0; b < valueBlocks; ++b)
      products.transpose(b);
  }

  void attend(const QueryTile &tile, const Visible &visible) {
    for (int64_t i = 0; i < tile.count; ++i) {
      const float *x = q + (tile.first + i) * a.qStride;
      products.encode(i, 0, x, a.nope);
      products.encode(i, ropeBegin, x + a.nope, a.rope);
    }
    products.see(visible(tile.count - 1));
    products.score(tile.count);
    for (int64_t i = 0; i < tile.count; ++i)
      products.weigh(i, visible(i), tile.most[i], tile.sum[i]);
    for (int64_t b = 0; b < valueBlocks; ++b)
      products.sum(tile.count, b, fresh, out + tile.first * a.outStride,
                   a.outStride);
  }

private:
  KvView takeGroup(std::byte *&scratch) const {
    int64_t width = (valueBegin + valueBlocks) * kKvBlock;
    auto *data = reinterpret_cast<uint8_t *>(scratch);
    scratch += kvBytes(KvType::Q8_0, width, kRows);
    return {data, width, kRows, kvRowBytes(KvType::Q8_0, width), KvType::Q8_0};
  }

  /// `n` rows of `count` floats, to the group's from `at` on.
  void write(Rows from, int64_t at, int64_t n, int64_t block, int64_t count) {
    for (int64_t k = 0; k < n; ++k)
      forKvBlocks(from.data + k * from.stride, count,
                  [&](int64_t b, const float *x) {
                    writeQ8Block<S>(group, at + k, block + b, x);
                  });
  }

  /// A row's values may have a NaN that its keys do not: who sees the row must
  /// see that, by its score.
  void markNaN(int64_t row) {
    for (int64_t b = 0; b < valueBlocks; ++b)
      if (float scale = *kvScale(group, row, valueBegin + b); scale != scale)
        *kvScale(group, row, 0) = scale;
  }

  const MlaAttentionArgs &a;
  int64_t ropeBegin, valueBegin, valueBlocks; ///< Blocks of a row.
  HeadRows<S> rows;
  KvView group;
  typename S::Q8Products products;
  SequenceCache cache = {};
  int64_t head = 0;
  const float *q = nullptr;
  float *out = nullptr;
  bool fresh = false;
};

/// All of attention for a sequence's queries [begin, end) of the head that
/// `blocks` has; begin is a multiple of kQueryTile. `stats`: [2][kQuerySpan]
template <class S, class Blocks>
void attendQueries(const MlaAttentionArgs &a, const SequenceRows &sequence,
                   int64_t head, int64_t begin, int64_t end, Blocks &blocks,
                   float *stats) {
  float *most = stats, *sum = stats + kQuerySpan;
  for (int64_t i = 0; i < end - begin; ++i) {
    most[i] = kMinusInfinity;
    sum[i] = 0;
  }
  // In whole tiles of keys, seen by these queries or not: what a gemm's last
  // bits are goes by the number of its rows, which must not go by the worker's
  // share.
  const int64_t position = sequence.position;
  int64_t rows = (position + end + kKeyTile - 1) / kKeyTile * kKeyTile;
  if (rows > position + sequence.count)
    rows = position + sequence.count;
  for (int64_t first = 0; first < rows; first += Blocks::kRows) {
    int64_t n = rows - first < Blocks::kRows ? rows - first : Blocks::kRows;
    blocks.setBlock(first, n);
    // Tiles whose last query does not see the block are skipped.
    int64_t tile = first - position;
    tile = tile > begin ? tile / kQueryTile * kQueryTile : begin;
    for (; tile < end; tile += kQueryTile) {
      int64_t count = end - tile < kQueryTile ? end - tile : kQueryTile;
      blocks.attend({tile, count, most + (tile - begin), sum + (tile - begin)},
                    {position + tile + 1 - first, n});
    }
  }
  for (int64_t t = begin; t < end; ++t)
    divideRow<S>(a.out + (sequence.begin + t) * a.outStride + head * a.value,
                 a.value, sum[t - begin]);
}

template <class S, class Blocks>
void attendHeads(const MlaAttentionArgs &a, const SequenceRows &sequence,
                 const Worker &worker, Blocks &blocks, float *stats) {
  int64_t tiles = (sequence.count + kQueryTile - 1) / kQueryTile;
  Range share =
      causalShare(a.heads, tiles, 1, sequence.position / kQueryTile, worker);
  for (int64_t item = share.begin; item < share.end;) {
    int64_t head = item / tiles, first = item % tiles;
    int64_t last =
        tiles < first + share.end - item ? tiles : first + share.end - item;
    int64_t end = last * kQueryTile;
    if (end > sequence.count)
      end = sequence.count;
    blocks.setHead(sequence, head);
    for (int64_t t = first * kQueryTile; t < end; t += kQuerySpan)
      attendQueries<S>(a, sequence, head, t,
                       end - t < kQuerySpan ? end : t + kQuerySpan, blocks,
                       stats);
    item += last - first;
  }
}

template <class S>
void run(const MlaAttentionArgs &a, const Step &step, const Worker &worker) {
  auto *stats = reinterpret_cast<float *>(worker.scratch);
  std::byte *scratch = worker.scratch + 2 * kQuerySpan * sizeof(float);
  auto attend = [&](auto blocks) {
    forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
      attendHeads<S>(a, s, w, blocks, stats);
    });
  };
  if constexpr (requires { typename S::Q8Products; }) {
    if (a.kv.type == KvType::Q8_0)
      return attend(Q8Head<S>(a, scratch));
  }
  attend(FloatHead<S>(a, scratch));
}

} // namespace moek

#endif // MOE_KERNELS_CPU_MLAATTENTION_H
