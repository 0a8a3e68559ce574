//===- KvSplits.h - Attention with KV splits --------------------*- C++ -*-===//
//
// The rows that a token sees are divided into KV splits (spans), so that a
// single token keeps all workers busy, and each reads a part of the cache for
// all heads that share it. The sums of a split are relative to its own maximum;
// CombineSplits adds up the splits. Where splits begin depends on the plan and
// the step alone, so that results are the same for any number of workers.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_KVSPLITS_H
#define MOE_KERNELS_CPU_KVSPLITS_H

#include "kernels/Abi.h"
#include "kernels/cpu/HeadScores.h"
#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

MOE_INLINE int64_t windowOf(int32_t window) {
  return window > 0 ? window : kNoWindow;
}

/// Returns the positions that the token at `position` sees.
MOE_INLINE Range visibleTo(int64_t position, int64_t window) {
  int64_t begin = position + 1 - window;
  return {begin > 0 ? begin : 0, position + 1};
}

/// The splits of the rows that a sequence's tokens see, at most `splits` of
/// them: they begin at `base` and at multiples of `length` after it.
struct Spans {
  int64_t base, length, count;

  MOE_INLINE Spans(const SequenceRows &sequence, int64_t splits,
                   int64_t window) {
    base = visibleTo(sequence.position, window).begin / kKvTile * kKvTile;
    int64_t visible = sequence.position + sequence.count - base;
    length = (visible + splits - 1) / splits;
    if (length < leastSplitRows(splits) && splits > 1)
      length = leastSplitRows(splits);
    length = (length + kKvTile - 1) / kKvTile * kKvTile;
    count = (visible + length - 1) / length;
  }
  /// Returns the splits that contain some of `positions`.
  MOE_INLINE Range of(Range positions) const {
    return {(positions.begin - base) / length,
            (positions.end - base + length - 1) / length};
  }
};

/// The operands of attention over splits.
struct SplitOperands {
  const float *q; ///< [T, heads * parts.key]
  int64_t qStride;
  KvView kv;
  const float *sinks; ///< [heads] or null.
  float *out;         ///< Results, laid out as in AttentionArgs.
  int64_t outStride;
  int64_t heads, splits, window;
  KvColumns parts;
  float scale, cap;
  /// The most heads of a group that are processed together.
  int64_t mostTogether;
  int32_t ring = 0; ///< Rows of a sequence's ring; 0: the cache has pages.

  int64_t groups() const { return (heads + mostTogether - 1) / mostTogether; }
};

/// The rows around a split that the same worker reads.
struct SplitReads {
  /// Whether its first rows were prefetched with the previous split.
  bool asked;
  int64_t end; ///< Where reading stops: at this split's or the next's end.
};

/// Heads of one token over a part of the cache, kKeyTile rows at a time. Sums
/// accumulate in the output and are rescaled when a block raises the maximum
/// (online softmax). Keys are converted to floats while scores are computed,
/// and values before their sums. Latent rows are keys and values: they are
/// converted once, a few in L1 at a time, and stay in L2 until both were used.
template <class S> class FloatSplit {
public:
  FloatSplit(const SplitOperands &work, int64_t heads, std::byte *scratch)
      : w(work), isLatent(w.parts.kvHeads == 0), columns(scratchFloats(heads)),
        valueStride(scratchFloats(
            w.parts.key > w.parts.value ? w.parts.key : w.parts.value)) {
    values = reinterpret_cast<float *>(scratch);
    scores = values + kKeyTile * valueStride;
    alpha = scores + kKeyTile * columns;
    mostOf = alpha + columns;
    sumOf = mostOf + columns;
    std::memset(scores, 0, size_t((kKeyTile + 3) * columns) * sizeof(float));
  }

  /// All groups of heads of some rows are processed before further rows are
  /// read, because memory is slow if only a part of each row is read at a time:
  /// 4.3 ms for 128 MiB on two cores of a Zen 3, and 6.5 ms for each head's
  /// 256 bytes of rows of 2 KiB in turn.
  static constexpr bool kRowsOnce = true;

  /// Processes `heads` heads from `head` on over `positions`: whole groups, or
  /// all heads of the last one. Writes the weighted sums of values, not yet
  /// divided by `sum`, and the maximum of the scores. The values of a latent
  /// row are columns of its key.
  void attend(const RingCache &cache, const float *q, int64_t head,
              int64_t heads, Range positions, SplitReads reads, float *out,
              float *most, float *sum) {
    const int64_t each = isLatent ? heads : w.parts.group;
    auto attendTo = [&](auto from, int64_t readEnd) {
      for (int64_t at = positions.begin; at < positions.end; at += kKeyTile) {
        const int64_t left = positions.end - at;
        const Block<decltype(from)> block{
            from,
            cache,
            {at, left < kKeyTile ? at + left : at + kKeyTile},
            readEnd,
            at == positions.begin};
        for (int64_t h = 0; h < heads; h += each) {
          std::memcpy(mostOf, most + h, size_t(each) * sizeof(float));
          std::memcpy(sumOf, sum + h, size_t(each) * sizeof(float));
          add(block, q + h * w.parts.key, head + h, each,
              out + h * w.parts.value);
          std::memcpy(most + h, mostOf, size_t(each) * sizeof(float));
          std::memcpy(sum + h, sumOf, size_t(each) * sizeof(float));
        }
      }
    };
    // These rows are for traits without Q8Products.
    if (cache.kv.type == KvType::Q8_0)
      return attendTo(floatRows<S>(), 0);
    withKvType<S>(cache.kv.type, [&](auto load, auto, int bytes) {
      attendTo(converted<S>(load, bytes), reads.end);
    });
  }

private:
  /// Rows of the cache.
  template <class From> struct Block {
    From from;
    const RingCache &cache;
    Range positions;
    int64_t readEnd; ///< Copy of SplitReads::end.
    bool fresh;      ///< Whether these rows are the first ones of the sum.

    MOE_INLINE const uint8_t *row(int64_t k) const {
      return cache.kv.data +
             cache.row(positions.begin + k) * cache.kv.rowStride;
    }
    /// Asks for columns of row k of the next block, which may be that of the
    /// next split.
    MOE_INLINE void prefetch(int64_t k, int64_t begin, int64_t width) const {
      if (positions.begin + kKeyTile + k < readEnd)
        prefetchKvRow(row(kKeyTile + k) + begin * from.bytes,
                      width * from.bytes);
    }
  };

  /// Adds a block to the sums of heads that share keys and values.
  template <class Block>
  void add(const Block &block, const float *q, int64_t head, int64_t heads,
           float *out) {
    const KvColumns &parts = w.parts;
    const int64_t rows = block.positions.end - block.positions.begin;
    const int64_t keyAt = parts.keyAt(head), valueAt = parts.valueAt(head);
    const uint8_t *key[kKeyTile];
    auto score = [&](auto from, int64_t first, int64_t n) {
      scoreRows<S>(from, {q, parts.key}, heads, key + first, n, parts.key,
                   w.scale, scores + first * columns, columns,
                   RowsAhead(n, [&](int64_t k) MOE_INLINE_CALL {
                     block.prefetch(first + k, keyAt, parts.key);
                   }));
    };
    auto readRows = [&](int64_t first, int64_t n, int64_t begin,
                        int64_t width) {
      readKvRows<S>(block.cache, block.positions.begin + first, n, begin, width,
                    values + first * valueStride, valueStride);
    };
    if (isLatent || block.cache.kv.type == KvType::Q8_0) {
      for (int64_t k = 0; k < rows; ++k)
        key[k] = reinterpret_cast<const uint8_t *>(values + k * valueStride);
      forPieces(rows, [&](int64_t first, int64_t n) {
        readRows(first, n, keyAt, parts.key);
        score(floatRows<S>(), first, n);
      });
    } else {
      for (int64_t k = 0; k < rows; ++k)
        key[k] = block.row(k) + keyAt * block.from.bytes;
      score(block.from, 0, rows);
    }
    softmaxHeads<S>(scores, columns, rows, heads, w.cap, mostOf, sumOf, alpha);
    if (!isLatent)
      readRows(0, rows, valueAt, parts.value);
    sumRows<S>(
        Columns{scores, columns}, heads, {block.fresh, alpha},
        {values, valueStride}, rows, parts.value, out, parts.value,
        RowsAhead(isLatent ? 0 : kKeyTile, [&](int64_t k) MOE_INLINE_CALL {
          block.prefetch(k, valueAt, parts.value);
        }));
  }

  /// Calls body(first, n) for pieces of a block's rows that stay in L1.
  template <class Body>
  MOE_INLINE void forPieces(int64_t rows, Body body) const {
    constexpr int64_t kKeys = S::kDotKeys;
    const int64_t most = rowsInL1(valueStride) / kKeys * kKeys;
    const int64_t each = most > 0 ? most : kKeys;
    for (int64_t first = 0; first < rows; first += each)
      body(first, rows - first < each ? rows - first : each);
  }

  const SplitOperands &w;
  bool isLatent;
  int64_t columns, valueStride;
  float *values; ///< [kKeyTile][valueStride]; holds the keys before.
  float *scores; ///< [kKeyTile][columns]; replaced by the weights.
  float *alpha, *mostOf, *sumOf; ///< [columns]
};

/// Does the work of FloatSplit for a Q8_0 cache, with integer products.
template <class S> class Q8Split {
public:
  static constexpr bool kRowsOnce = false; ///< See FloatSplit.

  Q8Split(const SplitOperands &work, int64_t heads, std::byte *scratch)
      : w(work), products({heads, heads, kvBlocks(w.parts.key), w.parts.value,
                           1, w.scale, w.cap},
                          scratch) {}

  /// See FloatSplit::attend().
  void attend(const RingCache &cache, const float *q, int64_t head,
              int64_t heads, Range positions, SplitReads reads, float *out,
              float *most, float *sum) {
    const KvColumns &parts = w.parts;
    encode(q, heads);
    products.setColumns(parts.keyAt(head) / kKvBlock,
                        parts.valueAt(head) / kKvBlock);
    const int64_t begin = positions.begin / kKvTile * kKvTile;
    for (int64_t at = begin; at < positions.end; at += kQ8Group) {
      int64_t left = positions.end - at, n = left < kQ8Group ? left : kQ8Group;
      int64_t behind = reads.end - at - n;
      products.setGroup(cache, at, n, behind < kQ8Group ? behind : kQ8Group);
      if constexpr (requires { products.readAhead(heads, true); })
        products.readAhead(heads, at == begin && !reads.asked);
      products.score(heads);
      // The first tile may begin with rows that are not visible.
      Range seen{at == begin ? positions.begin - begin : 0, n};
      for (int64_t h = 0; h < heads; ++h)
        products.weigh(h, seen, most[h], sum[h]);
      for (int64_t b = 0; b < kvBlocks(parts.value); ++b) {
        products.transpose(b);
        products.sum(heads, b, at == begin, out, parts.value);
      }
    }
  }

private:
  void encode(const float *q, int64_t heads) {
    if (q == encoded && heads <= encodedHeads)
      return; // A token with several splits is encoded only once.
    encoded = q;
    encodedHeads = heads;
    for (int64_t h = 0; h < heads; ++h)
      products.encode(h, 0, q + h * w.parts.key, w.parts.key);
  }

  const SplitOperands &w;
  typename S::Q8Products products;
  const float *encoded = nullptr;
  int64_t encodedHeads = 0;
};

/// Divides a sequence's work items (token, split, group of heads) among
/// workers. `stats` has room for two floats per head.
template <class S, class Part>
void attendSplits(const SplitOperands &w, const SequenceRows &sequence,
                  const Worker &worker, Part &part, float *stats) {
  const RingCache cache = {w.kv, w.ring, sequence};
  const KvColumns &parts = w.parts;
  const Spans spans(sequence, w.splits, w.window);
  const int64_t groups = w.groups(), perToken = spans.count * groups;
  Range share = causalRange(
      {1, sequence.count, perToken, sequence.position, w.window}, worker);
  const bool rowsOnce = Part::kRowsOnce || !parts.kvHeads;
  bool asked = false;
  for (int64_t item = share.begin; item < share.end;) {
    int64_t t = item / perToken, span, group, taken = 1;
    if (!rowsOnce) {
      // The splits of a head follow each other, so that its query is encoded
      // once.
      span = item % perToken % spans.count;
      group = item % perToken / spans.count;
    } else {
      // Groups read the same rows, so that as many as possible are taken at
      // once.
      span = item % perToken / groups;
      group = item % groups;
      taken =
          groups - group < share.end - item ? groups - group : share.end - item;
    }
    item += taken;
    int64_t head = group * w.mostTogether, heads = taken * w.mostTogether;
    if (heads > w.heads - head)
      heads = w.heads - head;
    Range visible = visibleTo(sequence.position + t, w.window);
    Range used = spans.of(visible);
    const bool continued = asked;
    asked = false;
    if (span < used.begin || span >= used.end)
      continue;
    // True if the next item is the token's next split and its first head reads
    // the same columns.
    asked = item < share.end && span + 1 < used.end &&
            (!rowsOnce || taken == groups);

    int64_t token = sequence.begin + t;
    float *row = w.out + (token * w.splits + span) * w.outStride;
    float *most = stats, *sum = stats + scratchFloats(w.heads);
    if (w.splits > 1) {
      most = row + w.heads * parts.value + head;
      sum = most + w.heads;
    }
    bool hasSinks = w.sinks && span == used.begin;
    for (int64_t h = 0; h < heads; ++h) {
      most[h] = hasSinks ? w.sinks[head + h] : kMinusInfinity;
      sum[h] = hasSinks ? 1 : 0;
    }
    int64_t first = spans.base + span * spans.length;
    int64_t readEnd = first + (asked ? 2 : 1) * spans.length;
    if (readEnd > visible.end)
      readEnd = visible.end;
    if (visible.end > first + spans.length)
      visible.end = first + spans.length;
    if (visible.begin < first)
      visible.begin = first;
    float *out = row + head * parts.value;
    part.attend(cache, w.q + token * w.qStride + head * parts.key, head, heads,
                visible, {continued, readEnd}, out, most, sum);
    if (w.splits == 1)
      for (int64_t h = 0; h < heads; ++h)
        divideRow<S>(out + h * parts.value, parts.value, sum[h]);
  }
}

/// Adds up a token's splits, weighted by exp(maximum of the split - maximum of
/// all).
template <class S>
void combineSplits(const CombineSplitsArgs &a, const SequenceRows &sequence,
                   const Worker &worker) {
  const int64_t window = windowOf(a.window);
  const Spans spans(sequence, a.splits, window);
  Range items = shareOf(int64_t(sequence.count) * a.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    int64_t t = item / a.heads, head = item % a.heads;
    Range used = spans.of(visibleTo(sequence.position + t, window));
    int64_t count = used.end - used.begin;
    const float *rows =
        a.x + ((sequence.begin + t) * a.splits + used.begin) * a.xStride;
    const float *stats = rows + a.heads * a.latent + head;
    // The maxima are treated as the scores of as many rows, each of weight
    // `sum`.
    float factors[kMostKvSplits + S::kWidth], most = kMinusInfinity, ones = 0;
    for (int64_t s = 0; s < count; ++s)
      factors[s] = stats[s * a.xStride];
    softmaxBlock<S>(factors, {0, count}, 0, most, ones);
    typename S::Num total = 0;
    for (int64_t s = 0; s < count; ++s)
      total += typename S::Num(factors[s]) * stats[s * a.xStride + a.heads];
    auto inverse = S::set(float(1 / total));
    float *out = a.out + (sequence.begin + t) * a.outStride + head * a.latent;
    const float *x = rows + head * a.latent;
    forVectors<S>(0, a.latent, [&](int64_t c, auto lanes) {
      auto sum = S::zero();
      for (int64_t s = 0; s < count; ++s)
        sum =
            S::fma(S::set(factors[s]), lanes.load(x + s * a.xStride + c), sum);
      lanes.store(out + c, S::mul(sum, inverse));
    });
  }
}

/// Workers divide the heads among themselves.
template <class S>
void run(const CombineSplitsArgs &a, const Step &step, const Worker &worker) {
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    combineSplits<S>(a, s, w);
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_KVSPLITS_H
