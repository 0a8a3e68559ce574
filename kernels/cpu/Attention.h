//===- Attention.h - Attention with shared keys and values ------*- C++ -*-===//
//
// A single token, or a step whose plan splits the KV cache, is computed by KV
// splits with all heads of a group at once (KvSplits.h), so that the cache is
// read once. Many tokens of a sequence are computed in tiles (QueryTiles.h): a
// worker takes a head group and some tokens, encodes their queries once and
// loops over blocks of keys and values. Blocks before the window or after the
// last token are skipped.
//
// With 128 columns and groups of 8 heads, 256 rows of a group take 69 KiB in
// Q8_0, their transposed values 32 KiB, the queries of 16 tokens 16 KiB and
// their sums 64 KiB. As floats 64 rows take 64 KiB and the queries 64 KiB.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ATTENTION_H
#define MOE_KERNELS_CPU_ATTENTION_H

#include "kernels/Abi.h"
#include "kernels/cpu/KvSplits.h"
#include "kernels/cpu/QueryTiles.h"

namespace moek {

/// A group of query heads that share keys and values: where its columns are in
/// q, out and the cache.
struct HeadGroup {
  RingCache cache;
  /// Points at the sequence's first token and the group's first head.
  const float *q;
  float *out;
  int64_t head; ///< First head of the group.

  HeadGroup(const AttentionArgs &a, const SequenceRows &sequence, int64_t head)
      : cache(a.kv, a.ring, sequence),
        q(a.q + sequence.begin * a.qStride + head * a.key),
        out(a.out + sequence.begin * a.outStride + head * a.value), head(head) {
  }
};

/// Blocks of a group's keys and values, converted to floats.
template <class S> class FloatGroup {
public:
  static constexpr int64_t kRows = kKeyTile;

  FloatGroup(const SplitOperands &work, std::byte *scratch)
      : w(work), tokens(attentionTokens(w.parts.group)),
        tiles(w.parts.key, w.scale, w.cap, scratch),
        rowStride(scratchFloats(w.parts.key > w.parts.value ? w.parts.key
                                                            : w.parts.value)),
        sumStride(scratchFloats(w.parts.value)) {
    rows = reinterpret_cast<float *>(scratch);
    values = rows + kPanel<S> * rowStride;
    queries = values + kKeyTile * panelFloats(w.parts.value);
    sums = queries + tokens * w.parts.group * w.parts.key;
  }

  /// Selects the group and the tokens for the following calls.
  void set(const HeadGroup &next, Range ofTokens) {
    const int64_t key = w.parts.key;
    group = &next;
    begin = ofTokens.begin;
    for (int64_t h = 0; h < w.parts.group; ++h)
      for (int64_t t = begin; t < ofTokens.end; ++t)
        std::memcpy(queries + at(h, t) * key,
                    group->q + t * w.qStride + h * key,
                    size_t(key) * sizeof(float));
  }

  void setBlock(int64_t first, int64_t n) {
    const KvColumns &parts = w.parts;
    for (int64_t k = 0; k < n; k += kPanel<S>) {
      const int64_t count = n - k < kPanel<S> ? n - k : kPanel<S>;
      readKvRows<S>(group->cache, first + k, count, parts.keyAt(group->head),
                    parts.key, rows, rowStride);
      tiles.setKeys({rows, rowStride}, k, count, 0, parts.key);
    }
    for (int64_t k = 0; k < n; ++k) {
      readKvRows<S>(group->cache, first + k, 1, parts.valueAt(group->head),
                    parts.value, rows, rowStride);
      float *to = values + k * kPanel<S>;
      forVectors<S>(0, parts.value, [&](int64_t c, auto lanes) {
        lanes.store(to + c / kPanel<S> * kKeyTile * kPanel<S> + c % kPanel<S>,
                    lanes.load(rows + c));
      });
    }
  }

  void attend(const QueryTile &tile) {
    const int64_t query = at(tile.head, tile.first);
    tiles.attend({queries + query * w.parts.key, w.parts.key}, tile,
                 Panels{values, kKeyTile}, w.parts.value,
                 sums + query * sumStride, sumStride);
  }

  /// Returns the sums of a head of the group for a token, valid when all blocks
  /// were processed.
  const float *sumsOf(int64_t head, int64_t token) const {
    return sums + at(head, token) * sumStride;
  }

private:
  int64_t at(int64_t head, int64_t token) const {
    return head * tokens + token - begin;
  }

  const SplitOperands &w;
  int64_t tokens; ///< The most tokens that are processed together.
  FloatTile<S> tiles;
  int64_t rowStride, sumStride;
  /// [kPanel][rowStride], rows that are then rearranged into panels.
  float *rows;
  float *values; ///< [value / kPanel][kKeyTile][kPanel]
  /// [group][tokens][key], without the gaps that rows of `q` have.
  float *queries;
  float *sums; ///< [group][tokens][sumStride]
  const HeadGroup *group = nullptr;
  int64_t begin = 0;
};

/// Does the work of FloatGroup for a Q8_0 cache, with integer products.
template <class S> class Q8HeadGroup {
public:
  static constexpr int64_t kRows = kQ8Group;

  Q8HeadGroup(const SplitOperands &work, std::byte *scratch)
      : w(work), tokens(attentionTokens(w.parts.group)),
        valueBlocks(kvBlocks(w.parts.value)),
        products({tokens * w.parts.group, kQueryTile, kvBlocks(w.parts.key),
                  w.parts.value, valueBlocks, w.scale, w.cap},
                 scratch) {}

  void set(const HeadGroup &next, Range ofTokens) {
    const KvColumns &parts = w.parts;
    group = &next;
    begin = ofTokens.begin;
    products.setColumns(parts.keyAt(group->head) / kKvBlock,
                        parts.valueAt(group->head) / kKvBlock);
    for (int64_t h = 0; h < parts.group; ++h)
      for (int64_t t = begin; t < ofTokens.end; ++t)
        products.encode(h * tokens + t - begin, 0,
                        group->q + t * w.qStride + h * parts.key, parts.key);
  }

  void setBlock(int64_t first, int64_t n) {
    products.setGroup(group->cache, first, n, 0);
    for (int64_t b = 0; b < valueBlocks; ++b)
      products.transpose(b);
  }

  void attend(const QueryTile &tile) {
    products.choose(tile.head * tokens + tile.first - begin);
    attendTile(products, tile, valueBlocks,
               group->out + tile.first * w.outStride +
                   tile.head * w.parts.value,
               w.outStride);
  }

  /// See FloatGroup.
  const float *sumsOf(int64_t head, int64_t token) const {
    return group->out + token * w.outStride + head * w.parts.value;
  }

private:
  const SplitOperands &w;
  int64_t tokens, valueBlocks;
  typename S::Q8Products products;
  const HeadGroup *group = nullptr;
  int64_t begin = 0;
};

/// Divides a sequence's tokens, attentionTokens() at a time, and head groups
/// among the workers. `stats` has room for two floats per query of these.
template <class S, class Blocks>
void attendGroups(const AttentionArgs &a, const SequenceRows &sequence,
                  const Worker &worker, Blocks &blocks, float *stats) {
  const int64_t heads = a.heads / a.kvHeads, each = attentionTokens(heads);
  const int64_t window = windowOf(a.window), position = sequence.position;
  const int64_t parts = (sequence.count + each - 1) / each;
  float *most = stats, *sum = stats + scratchFloats(heads * each);
  auto attend = [&](int64_t item) {
    Range tokens{item % parts * each, (item % parts + 1) * each};
    if (tokens.end > sequence.count)
      tokens.end = sequence.count;
    const HeadGroup group(a, sequence, item / parts * heads);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < tokens.end - tokens.begin; ++t) {
        most[h * each + t] = a.sinks ? a.sinks[group.head + h] : kMinusInfinity;
        sum[h * each + t] = a.sinks ? 1 : 0;
      }
    blocks.set(group, tokens);
    int64_t first = visibleTo(position + tokens.begin, window).begin;
    attendTiles({position,
                 tokens,
                 {first / kKvTile * kKvTile, position + tokens.end},
                 window,
                 heads,
                 most,
                 sum,
                 each},
                blocks);
    for (int64_t t = tokens.begin; t < tokens.end; ++t)
      for (int64_t h = 0; h < heads; ++h)
        divideRow<S>(blocks.sumsOf(h, t), a.value,
                     sum[h * each + t - tokens.begin],
                     group.out + t * a.outStride + h * a.value);
  };
  forCausalItems({a.kvHeads, parts, 1, position / each, window / each + 1},
                 worker, attend);
}

template <class S>
void run(const AttentionArgs &a, const Step &step, const Worker &worker) {
  const int64_t group = a.heads / a.kvHeads;
  const SplitOperands work{a.q,
                           a.qStride,
                           a.kv,
                           a.sinks,
                           a.out,
                           a.outStride,
                           a.heads,
                           a.splits,
                           windowOf(a.window),
                           {a.key, a.value, group, a.kvHeads},
                           a.scale,
                           a.softcap,
                           group,
                           a.ring};
  auto *stats = reinterpret_cast<float *>(worker.scratch);
  std::byte *scratch = worker.scratch + attentionStatsBytes(a.heads, group);
  // `span` and `blocks` share scratch memory: each sequence uses only one of
  // them.
  auto attend = [&](auto span, auto blocks) {
    forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
      if (a.splits > 1 || s.count == 1)
        attendSplits<S>(work, s, w, span, stats);
      else
        attendGroups<S>(a, s, w, blocks, stats);
    });
  };
  if constexpr (requires { typename S::Q8Products; }) {
    if (a.kv.type == KvType::Q8_0)
      return attend(Q8Split<S>(work, group, scratch),
                    Q8HeadGroup<S>(work, scratch));
  }
  attend(FloatSplit<S>(work, group, scratch), FloatGroup<S>(work, scratch));
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ATTENTION_H
