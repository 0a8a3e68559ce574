//===- BlockAttention.h - Attention to chosen blocks of keys ----*- C++ -*-===//
//
// An indexer scores blocks of neighbouring positions, and the heads that share
// keys and values read only the best blocks of their group and the last ones.
// As in Sparse.h, tiles of rows are converted to floats in L2 once and serve
// all heads of a group.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_BLOCKATTENTION_H
#define MOE_KERNELS_CPU_BLOCKATTENTION_H

#include "kernels/Abi.h"
#include "kernels/Entries.h"
#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/KvSplits.h"

namespace moek {

/// Returns the larger number; a NaN if there is one.
MOE_INLINE float maxOrNaN(float a, float b) { return b > a || b != b ? b : a; }

/// Scores blocks `first` to `first` + `n` for all groups of one token.
template <class S>
void scoreBlocks(const BlockScoresArgs &a, const RingCache &cache,
                 int64_t token, int64_t first, int64_t n, float *scratch) {
  const int64_t keyStride = scratchFloats(a.key);
  float *keys = scratch, *products = keys + kKeyTile * keyStride;
  const int64_t end = (first + n) * a.ratio;
  for (int64_t at = first * a.ratio; at < end; at += kKeyTile) {
    const int64_t count = end - at < kKeyTile ? end - at : kKeyTile;
    readKvRows<S>(cache, at, count, 0, a.key, keys, keyStride);
    dotRows<S>({a.q + token * a.qStride, a.key}, a.groups, {keys, keyStride},
               count, a.key, 1, products, kKeyTile);
    for (int64_t g = 0; g < a.groups; ++g) {
      float *out = a.out + (token * a.groups + g) * a.outStride;
      for (int64_t i = 0; i < count; ++i) {
        float &best = out[(at + i) / a.ratio];
        const float score = products[g * kKeyTile + i];
        best = (at + i) % a.ratio == 0 ? score : maxOrNaN(best, score);
      }
    }
  }
}

/// Workers divide tokens, and of each token runs of blocks that have about a
/// tile of rows.
template <class S>
void run(const BlockScoresArgs &a, const Step &step, const Worker &worker) {
  auto *scratch = reinterpret_cast<float *>(worker.scratch);
  const int64_t each = a.ratio < kKeyTile ? kKeyTile / a.ratio : 1;
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    const RingCache cache = {a.kv, s.pages};
    int64_t most = entriesSeen(s.position + s.count - 1, a.ratio, a.local);
    int64_t runs = (most + each - 1) / each;
    if (runs == 0)
      return;
    Range share = causalRange({1, s.count, runs, s.position}, w);
    for (int64_t i = share.begin; i < share.end; ++i) {
      int64_t t = i / runs, first = i % runs * each;
      int64_t left = entriesSeen(s.position + t, a.ratio, a.local) - first;
      if (left > 0)
        scoreBlocks<S>(a, cache, s.begin + t, first, left < each ? left : each,
                       scratch);
    }
  });
}

/// The heads of one group of one token over the positions that they see. Sums
/// accumulate in the output and are rescaled when a tile raises the maximum.
template <class S> class BlockHeads {
public:
  BlockHeads(const BlockAttentionArgs &args, std::byte *scratch)
      : a(args), group(a.heads / a.kvHeads), keyStride(scratchFloats(a.key)),
        valueStride(scratchFloats(a.value)) {
    keys = reinterpret_cast<float *>(scratch);
    values = keys + kKeyTile * keyStride;
    scores = values + kKeyTile * valueStride;
    most = scores + group * kKeyTile;
    sum = most + scratchFloats(group);
    alpha = sum + scratchFloats(group);
  }

  void attend(const SequenceRows &s, int64_t t, int64_t kvHead) {
    const int64_t token = s.begin + t, position = s.position + t;
    const RingCache rows = {a.kv, s.pages};
    const KvColumns columns{a.key, a.value, group, a.kvHeads};
    const int64_t head = kvHead * group;
    keyAt = columns.keyAt(head);
    valueAt = columns.valueAt(head);
    q = a.q + token * a.qStride + head * a.key;
    out = a.out + token * a.outStride + head * a.value;
    fresh = true;
    held = 0;
    for (int64_t h = 0; h < group; ++h) {
      most[h] = kMinusInfinity;
      sum[h] = 0;
    }
    const int64_t seen = entriesSeen(position, a.ratio, a.local);
    const int64_t own = a.groups == 1 ? 0 : kvHead;
    const int32_t *chosen = a.chosen + (token * a.groups + own) * a.topK;
    for (int64_t i = 0; i < seen && i < a.topK; ++i)
      take(rows, chosen[i] * int64_t(a.ratio),
           (chosen[i] + int64_t(1)) * a.ratio);
    take(rows, seen * a.ratio, position + 1);
    flush();
    for (int64_t h = 0; h < group; ++h)
      divideRow<S>(out + h * a.value, a.value, sum[h]);
  }

private:
  void take(const RingCache &rows, int64_t at, int64_t end) {
    while (at < end) {
      int64_t n = kKeyTile - held < end - at ? kKeyTile - held : end - at;
      readKvRows<S>(rows, at, n, keyAt, a.key, keys + held * keyStride,
                    keyStride);
      readKvRows<S>(rows, at, n, valueAt, a.value, values + held * valueStride,
                    valueStride);
      at += n;
      held += n;
      if (held == kKeyTile)
        flush();
    }
  }
  void flush() {
    if (held == 0)
      return;
    dotRows<S>({q, a.key}, group, {keys, keyStride}, held, a.key, a.scale,
               scores, kKeyTile);
    for (int64_t h = 0; h < group; ++h)
      alpha[h] =
          softmaxBlock<S>(scores + h * kKeyTile, {0, held}, 0, most[h], sum[h])
              .alpha;
    sumRows<S>(Rows{scores, kKeyTile}, group, {fresh, alpha},
               {values, valueStride}, held, a.value, out, a.value);
    fresh = false;
    held = 0;
  }

  const BlockAttentionArgs &a;
  int64_t group, keyStride, valueStride, keyAt = 0, valueAt = 0, held = 0;
  float *keys, *values, *scores, *most, *sum, *alpha;
  const float *q = nullptr;
  float *out = nullptr;
  bool fresh = true;
};

/// Workers divide tokens and groups of heads.
template <class S>
void run(const BlockAttentionArgs &a, const Step &step, const Worker &worker) {
  BlockHeads<S> work(a, worker.scratch);
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    Range share = shareOf(int64_t(s.count) * a.kvHeads, 1, w);
    for (int64_t item = share.begin; item < share.end; ++item)
      work.attend(s, item / a.kvHeads, item % a.kvHeads);
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_BLOCKATTENTION_H
