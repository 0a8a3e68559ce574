//===- Sparse.h - CPU kernels of sparse attention ---------------*- C++ -*-===//
//
// A lightning indexer scores every entry that a token sees with few and small
// heads; attention then reads only the best ones. Blocks of rows are converted
// to floats in L2 once and serve all heads of a token: with 64 heads that
// conversion costs a sixtieth of their products.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_SPARSE_H
#define MOE_KERNELS_CPU_SPARSE_H

#include "kernels/Abi.h"
#include "kernels/Entries.h"
#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/KvSplits.h"

#include <cmath>

namespace moek {

/// Reads entry `entry` as floats.
template <class S>
MOE_INLINE void readEntry(const RingCache &cache, int64_t entry, int32_t ratio,
                          int64_t width, float *out) {
  readKvRows<S>(cache, (entry + 1) * ratio - 1, 1, 0, width, out, 0);
}

/// Writes a row of a cache. If an element is NaN, all scores with the row are
/// NaN.
template <class S, class Fill>
MOE_INLINE void storeRow(const RingCache &cache, int64_t position, Fill fill) {
  const int64_t at = cache.row(position);
  KvRowWriter<S> row(cache.kv, at);
  fill(row);
  // Q8_0 blocks need no mark: their scale is NaN already.
  if (!row.finish(false) && cache.kv.type != KvType::Q8_0)
    markNaN<S>(cache.kv, at, 0);
}

/// Deviations are taken from the mean as rounded to a Num. The error of the
/// mean adds only its square to the variance, which is negligible.
template <class S>
void run(const LayerNormArgs &a, const Step &step, const Worker &worker) {
  using Num = typename S::Num;
  Range rows = shareOf(step.tokens, 1, worker);
  const int64_t whole = a.cols / S::kWidth * S::kWidth;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const float *x = a.x + t * a.xStride;
    float *out = a.out + t * a.outStride;
    auto total = S::zero();
    forVectors<S>(0, a.cols, [&](int64_t c, auto lanes) {
      total = S::add(total, lanes.load(x + c));
    });
    const double cols = double(a.cols);
    const Num mean = Num(double(S::reduceAdd(total)) / cols);
    auto each = S::zero();
    forVectors<S>(0, whole, [&](int64_t c, auto lanes) {
      auto far = S::sub(lanes.load(x + c), S::set(mean));
      each = S::fma(far, far, each);
    });
    double squares = double(S::reduceAdd(each));
    for (int64_t c = whole; c < a.cols; ++c)
      squares += double(Num(x[c]) - mean) * double(Num(x[c]) - mean);
    const Num scale = Num(1 / std::sqrt(squares / cols + double(a.eps)));
    forVectors<S>(0, a.cols, [&](int64_t c, auto lanes) {
      auto far = S::sub(lanes.load(x + c), S::set(mean));
      auto bias = a.bias ? lanes.load(a.bias + c) : S::zero();
      lanes.store(out + c, S::fma(S::mul(far, S::set(scale)),
                                  lanes.load(a.weight + c), bias));
    });
  }
}

template <class S>
void run(const RowStoreArgs &a, const Step &step, const Worker &worker) {
  forTokens(
      step, worker, [&](int64_t t, int64_t position, const SequenceRows &s) {
        if ((position + 1) % a.ratio != 0)
          return;
        const float *x = a.x + t * a.xStride;
        storeRow<S>({a.kv, a.ring, s}, position, [&](auto &row) {
          row.append(a.kv.width, [&](int64_t begin, int64_t n, float *to) {
            std::memcpy(to, x + begin, size_t(n) * sizeof(float));
          });
        });
      });
}

/// Scores entries `first` to `first` + `n` for one token.
template <class S>
void scoreBlock(const IndexScoresArgs &a, const RingCache &cache, int64_t token,
                int64_t first, int64_t n, float *scratch) {
  const int64_t keyStride = scratchFloats(a.key);
  float *keys = scratch, *products = keys + kKeyTile * keyStride;
  if (a.ratio == 1)
    readKvRows<S>(cache, first, n, 0, a.key, keys, keyStride);
  else
    for (int64_t e = 0; e < n; ++e)
      readEntry<S>(cache, first + e, a.ratio, a.key, keys + e * keyStride);
  dotRows<S>({a.q + token * a.qStride, a.key}, a.heads, {keys, keyStride}, n,
             a.key, 1, products, kKeyTile);
  const float *weights =
      a.weights ? a.weights + token * a.weightsStride : nullptr;
  float *out = a.out + token * a.outStride + first;
  forVectors<S>(0, n, [&](int64_t e, auto lanes) {
    auto sum = S::zero();
    for (int32_t h = 0; h < a.heads; ++h)
      // max returns its second operand if one is NaN.
      sum = S::fma(S::set(weights ? weights[h] : 1),
                   S::max(S::zero(), lanes.load(products + h * kKeyTile + e)),
                   sum);
    lanes.store(out + e, S::mul(S::set(a.scale), sum));
  });
}

template <class S>
void run(const IndexScoresArgs &a, const Step &step, const Worker &worker) {
  auto *scratch = reinterpret_cast<float *>(worker.scratch);
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    const RingCache cache = {a.kv, s.pages};
    int64_t most = entriesSeen(s.position + s.count - 1, a.ratio);
    int64_t blocks = (most + kKeyTile - 1) / kKeyTile;
    if (blocks == 0)
      return;
    Range share = causalRange({1, s.count, blocks, s.position}, w);
    for (int64_t i = share.begin; i < share.end; ++i) {
      int64_t t = i / blocks, first = i % blocks * kKeyTile;
      int64_t left = entriesSeen(s.position + t, a.ratio) - first;
      if (left > 0)
        scoreBlock<S>(a, cache, s.begin + t, first,
                      left < kKeyTile ? left : kKeyTile, scratch);
    }
  });
}

/// Maps scores to integers in the same order. Minus zero equals zero, and NaN
/// ranks above all others.
MOE_INLINE uint32_t scoreRank(float score) {
  if (score != score)
    return UINT32_MAX;
  uint32_t bits;
  score += 0.0f;
  std::memcpy(&bits, &score, sizeof(bits));
  return bits >> 31 ? ~bits : bits | uint32_t(1) << 31;
}

/// The rank of the `k`-th largest of `n` scores, 0 < k <= n, and how many
/// scores of that rank are among the k largest. It is found digit by digit
/// (radix select): scores that match the digits so far are counted by their
/// next digit.
struct Threshold {
  uint32_t rank = 0;
  int64_t equal = 0;
};
MOE_INLINE Threshold thresholdOf(const float *scores, int64_t n, int64_t k,
                                 uint32_t *counts) {
  Threshold found{0, k};
  for (int64_t known = 0; known < 32;) {
    int64_t bits = 32 - known < kSelectBits ? 32 - known : kSelectBits;
    int64_t shift = 32 - known - bits;
    std::memset(counts, 0, sizeof(uint32_t) << bits);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t rank = scoreRank(scores[i]);
      if (known == 0 || (rank ^ found.rank) >> (32 - known) == 0)
        ++counts[rank >> shift & ((uint32_t(1) << bits) - 1)];
    }
    int64_t digit = (int64_t(1) << bits) - 1;
    for (; counts[digit] < found.equal; --digit)
      found.equal -= counts[digit];
    found.rank |= uint32_t(digit) << shift;
    known += bits;
  }
  return found;
}

/// Writes the numbers of the `topK` largest of `n` scores, and then -1.
MOE_INLINE void selectEntries(const float *scores, int64_t n, int64_t topK,
                              uint32_t *counts, int32_t *chosen) {
  int64_t count = 0;
  if (n <= topK) {
    for (; count < n; ++count)
      chosen[count] = int32_t(count);
  } else {
    Threshold least = thresholdOf(scores, n, topK, counts);
    for (int64_t i = 0; i < n; ++i) {
      uint32_t rank = scoreRank(scores[i]);
      if (rank < least.rank || (rank == least.rank && least.equal-- <= 0))
        continue;
      chosen[count++] = int32_t(i);
    }
  }
  for (; count < topK; ++count)
    chosen[count] = -1;
}

template <class S>
void run(const IndexSelectArgs &a, const Step &step, const Worker &worker) {
  auto *counts = reinterpret_cast<uint32_t *>(worker.scratch);
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              int64_t n = entriesSeen(position, a.ratio, a.local);
              for (int64_t g = t * a.groups; g < (t + 1) * a.groups; ++g)
                selectEntries(a.scores + g * a.scoresStride, n, a.topK, counts,
                              a.chosen + g * a.topK);
            });
}

/// Processes some heads of one token over blocks of the rows that it sees. Sums
/// accumulate in the output and are rescaled when a block raises the maximum.
template <class S> class SparseHeads {
public:
  SparseHeads(const SparseAttentionArgs &args, std::byte *scratch)
      : a(args), keyStride(scratchFloats(a.key)) {
    keys = reinterpret_cast<float *>(scratch);
    scores = keys + kKeyTile * keyStride;
    most = scores + a.heads * kKeyTile;
    sum = most + scratchFloats(a.heads);
    alpha = sum + scratchFloats(a.heads);
  }

  void attend(const SequenceRows &s, int64_t t, int64_t head, int64_t count) {
    const int64_t token = s.begin + t, position = s.position + t;
    heads = count;
    q = a.q + token * a.qStride + head * a.key;
    out = a.out + token * a.outStride + head * a.value;
    fresh = true;
    held = 0;
    for (int64_t h = 0; h < heads; ++h) {
      most[h] = a.sinks ? a.sinks[head + h] : kMinusInfinity;
      sum[h] = a.sinks ? 1 : 0;
    }
    if (a.window > 0) {
      const RingCache rows = {a.kv, a.ring, s};
      Range visible = visibleTo(position, a.window);
      for (int64_t p = visible.begin; p < visible.end; ++p)
        take(rows, p);
    }
    int64_t seen = entriesSeen(position, a.ratio);
    if (seen > 0) {
      const RingCache rows = {a.entries, s.pages};
      // Takes the row of entry `entry`.
      auto takeEntry = [&](int64_t entry) {
        take(rows, (entry + 1) * a.ratio - 1);
      };
      const int64_t blocks = a.chosen ? seen / a.pool : 0;
      const int32_t *chosen = a.chosen + token * a.topK;
      for (int64_t i = 0; i < blocks && i < a.topK; ++i)
        for (int64_t j = 0; j < a.pool; ++j)
          takeEntry(int64_t(chosen[i]) * a.pool + j);
      for (int64_t entry = blocks * a.pool; entry < seen; ++entry)
        takeEntry(entry);
    }
    flush();
    for (int64_t h = 0; h < heads; ++h)
      divideRow<S>(out + h * a.value, a.value, sum[h]);
  }

private:
  void take(const RingCache &rows, int64_t position) {
    readKvRows<S>(rows, position, 1, 0, a.key, keys + held * keyStride,
                  keyStride);
    if (++held == kKeyTile)
      flush();
  }
  void flush() {
    if (held == 0)
      return;
    dotRows<S>({q, a.key}, heads, {keys, keyStride}, held, a.key, a.scale,
               scores, kKeyTile);
    for (int64_t h = 0; h < heads; ++h)
      alpha[h] =
          softmaxBlock<S>(scores + h * kKeyTile, {0, held}, 0, most[h], sum[h])
              .alpha;
    sumRows<S>(Rows{scores, kKeyTile}, heads, {fresh, alpha}, {keys, keyStride},
               held, a.value, out, a.value);
    fresh = false;
    held = 0;
  }

  const SparseAttentionArgs &a;
  int64_t keyStride, heads = 0, held = 0;
  float *keys, *scores, *most, *sum, *alpha;
  const float *q = nullptr;
  float *out = nullptr;
  bool fresh = true;
};

/// Workers divide tokens and groups of heads. A worker processes all its groups
/// of a token at once, because they read the same rows.
template <class S>
void run(const SparseAttentionArgs &a, const Step &step, const Worker &worker) {
  SparseHeads<S> work(a, worker.scratch);
  const int64_t groups = (a.heads + kLatentHeads - 1) / kLatentHeads;
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    Range share = shareOf(s.count * groups, 1, w);
    for (int64_t item = share.begin; item < share.end;) {
      int64_t t = item / groups, group = item % groups;
      int64_t taken =
          groups - group < share.end - item ? groups - group : share.end - item;
      item += taken;
      int64_t head = group * kLatentHeads, heads = taken * kLatentHeads;
      work.attend(s, t, head, heads < a.heads - head ? heads : a.heads - head);
    }
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SPARSE_H
