//===- MlaAttention.h - Attention on decompressed keys and values ---------===//
//
// Decompressing a cached row for one head costs (nope + value) * latent
// multiply-adds, as much as some 400 queries spend on that row. So a worker
// takes a head, loops over the cache in blocks, decompresses each block once
// and multiplies it with all its queries (up to kQuerySpan), in tiles.
//
// DeepSeek-V2-Lite: kKeyTile cache rows take 144 KiB as floats, their keys and
// values 80 KiB. A group of 256 rows takes 85 KiB in Q8_0, its transposed
// values another 32 KiB.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_MLAATTENTION_H
#define MOE_KERNELS_CPU_MLAATTENTION_H

#include "kernels/Abi.h"
#include "kernels/cpu/HeadKeysValues.h"
#include "kernels/cpu/QueryTiles.h"

namespace moek {

/// Blocks of decompressed keys and values as floats.
template <class S> class FloatHead {
public:
  static constexpr int64_t kRows = kKeyTile;

  FloatHead(const MlaAttentionArgs &args, std::byte *scratch)
      : a(args), rows(a, scratch),
        tiles(a.nope + a.rope, a.scale, /*cap=*/0, scratch) {}

  /// Selects head `ofHead` of a sequence for the following calls.
  void setHead(const SequenceRows &sequence, int64_t ofHead) {
    cache = {a.kv, sequence.pages};
    head = ofHead;
    q = a.q + sequence.begin * a.qStride + head * (a.nope + a.rope);
    out = a.out + sequence.begin * a.outStride + head * a.value;
  }

  /// Decompresses the rows of `n` positions.
  void setBlock(int64_t first, int64_t n) {
    rows.read(cache, head, first, n);
    tiles.setKeys(rows.keys(), 0, n, 0, a.nope);
    tiles.setKeys(rows.ropeKeys(), 0, n, a.nope, a.rope);
    values = rows.values();
  }

  void attend(const QueryTile &tile) {
    tiles.attend({q + tile.first * a.qStride, a.qStride}, tile, values, a.value,
                 out + tile.first * a.outStride, a.outStride);
  }

private:
  const MlaAttentionArgs &a;
  HeadKeysValues<S> rows;
  FloatTile<S> tiles;
  Rows values = {};
  RingCache cache{KvView{}, nullptr};
  int64_t head = 0;
  const float *q = nullptr;
  float *out = nullptr;
};

/// With a Q8_0 cache, decompressed rows are quantised to Q8_0 too, in tiles
/// like those of a cache: [keys | rope keys | values], each in whole blocks.
template <class S> class Q8Head {
public:
  static constexpr int64_t kRows = kQ8Group;

  Q8Head(const MlaAttentionArgs &args, std::byte *scratch)
      : a(args), ropeBegin(kvBlocks(a.nope)),
        valueBegin(ropeBegin + kvBlocks(a.rope)),
        valueBlocks(kvBlocks(a.value)), rows(a, scratch),
        group(takeGroup(scratch)), products({kQueryTile, kQueryTile, valueBegin,
                                             a.value, valueBlocks, a.scale},
                                            scratch) {
    products.setColumns(0, valueBegin);
  }

  void setHead(const SequenceRows &sequence, int64_t ofHead) {
    cache = {a.kv, sequence.pages};
    head = ofHead;
    q = a.q + sequence.begin * a.qStride + head * (a.nope + a.rope);
    out = a.out + sequence.begin * a.outStride + head * a.value;
  }

  void setBlock(int64_t first, int64_t n) {
    for (int64_t at = 0; at < n; at += kKeyTile) {
      int64_t count = n - at < kKeyTile ? n - at : kKeyTile;
      rows.read(cache, head, first + at, count);
      write(rows.keys(), at, count, 0, a.nope);
      write(rows.ropeKeys(), at, count, ropeBegin, a.rope);
      write(rows.values(), at, count, valueBegin, a.value);
      for (int64_t k = at; k < at + count; ++k)
        markRow(k);
    }
    products.setGroup({group, nullptr}, 0, n, 0);
    for (int64_t b = 0; b < valueBlocks; ++b)
      products.transpose(b);
  }

  void attend(const QueryTile &tile) {
    for (int64_t i = 0; i < tile.count; ++i) {
      const float *x = q + (tile.first + i) * a.qStride;
      products.encode(i, 0, x, a.nope);
      products.encode(i, ropeBegin, x + a.nope, a.rope);
    }
    attendTile(products, tile, valueBlocks, out + tile.first * a.outStride,
               a.outStride);
  }

private:
  KvView takeGroup(std::byte *&scratch) const {
    int64_t width = (valueBegin + valueBlocks) * kKvBlock;
    auto *data = reinterpret_cast<uint8_t *>(scratch);
    scratch += kvBytes(KvType::Q8_0, width, kRows);
    return {data, width, kRows, kvRowBytes(KvType::Q8_0, width), KvType::Q8_0};
  }

  /// Quantises `n` rows of `count` floats into the group's rows from `at` on.
  void write(Rows from, int64_t at, int64_t n, int64_t block, int64_t count) {
    for (int64_t k = 0; k < n; ++k)
      forKvBlocks(from.data + k * from.stride, count,
                  [&](int64_t b, const float *x) {
                    writeQ8Block<S>(group, at + k, block + b, x);
                  });
  }

  /// A row's values may contain a NaN where its keys do not. Every query that
  /// sees the row must get a NaN, so its key is made NaN.
  void markRow(int64_t row) {
    for (int64_t b = 0; b < valueBlocks; ++b)
      if (float scale = *kvScale(group, row, valueBegin + b); scale != scale)
        markNaN<S>(group, row, 0);
  }

  const MlaAttentionArgs &a;
  /// Offsets and number, counted in blocks of a row.
  int64_t ropeBegin, valueBegin, valueBlocks;
  HeadKeysValues<S> rows;
  KvView group;
  typename S::Q8Products products;
  RingCache cache{KvView{}, nullptr};
  int64_t head = 0;
  const float *q = nullptr;
  float *out = nullptr;
};

/// Computes attention of a sequence's queries [begin, end) for the head that
/// `blocks` has selected; begin is a multiple of kQueryTile. `stats` is
/// [2][kQuerySpan].
template <class S, class Blocks>
void attendQueries(const MlaAttentionArgs &a, const SequenceRows &sequence,
                   int64_t head, int64_t begin, int64_t end, Blocks &blocks,
                   float *stats) {
  float *most = stats, *sum = stats + kQuerySpan;
  for (int64_t i = 0; i < end - begin; ++i) {
    most[i] = kMinusInfinity;
    sum[i] = 0;
  }
  // Whole tiles of keys are processed, even keys that these queries do not see:
  // the last bits of a gemm's results depend on its number of rows, which must
  // not depend on the worker's share.
  const int64_t position = sequence.position;
  int64_t rows = (position + end + kKeyTile - 1) / kKeyTile * kKeyTile;
  if (rows > position + sequence.count)
    rows = position + sequence.count;
  attendTiles({position,
               {begin, end},
               {0, rows},
               kNoWindow,
               /*heads=*/1,
               most,
               sum,
               kQuerySpan},
              blocks);
  for (int64_t t = begin; t < end; ++t)
    divideRow<S>(a.out + (sequence.begin + t) * a.outStride + head * a.value,
                 a.value, sum[t - begin]);
}

template <class S, class Blocks>
void attendHeads(const MlaAttentionArgs &a, const SequenceRows &sequence,
                 const Worker &worker, Blocks &blocks, float *stats) {
  int64_t tiles = (sequence.count + kQueryTile - 1) / kQueryTile;
  Range share =
      causalRange({a.heads, tiles, 1, sequence.position / kQueryTile}, worker);
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
