//===- LatentAttention.h - Attention on the latent cache --------*- C++ -*-===//
//
// Keys and values are the cache rows themselves (multi-query: all heads share
// them). A token's visible rows are cut into spans, so that one token keeps all
// workers busy and each reads a part of the cache, for all heads. A span's sums
// are relative to its own maximum; LatentCombine adds the spans up. Where spans
// begin depends on the plan and the step alone: results are the same for any
// number of workers.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LATENTATTENTION_H
#define MOE_KERNELS_CPU_LATENTATTENTION_H

#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/Q8Group.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// One token's heads over a part of the cache, rows converted to floats: a
/// block of kKeyTile rows becomes floats in L2 once and serves all heads; sums
/// grow in the output, rescaled when a block raises the maximum (online
/// softmax).
template <class S> class FloatLatent {
public:
  FloatLatent(const LatentAttentionArgs &args, std::byte *scratch)
      : a(args), width(a.latent + a.rope), stride(scratchFloats(width)) {
    block = reinterpret_cast<float *>(scratch);
    scores = block + kKeyTile * stride;
    alpha = scores + a.heads * kKeyTile;
  }

  /// Heads of q over positions [first, end): weighted sums of latents, not yet
  /// divided by `sum`, with the maximum of the scores.
  void attend(const SequenceCache &cache, const float *q, int64_t heads,
              int64_t first, int64_t end, float *out, float *most, float *sum) {
    for (int64_t at = first; at < end; at += kKeyTile) {
      int64_t keys = end - at < kKeyTile ? end - at : kKeyTile;
      readKvRows<S>(cache, at, keys, width, block, stride);
      dotRows<S>({q, width}, heads, {block, stride}, keys, width, a.scale,
                 scores, kKeyTile);
      for (int64_t h = 0; h < heads; ++h)
        alpha[h] =
            softmaxBlock<S>(scores + h * kKeyTile, keys, most[h], sum[h]);
      sumRows<S>({scores, kKeyTile}, heads, {at == first, alpha},
                 {block, stride}, keys, a.latent, out, a.latent);
    }
  }

private:
  const LatentAttentionArgs &a;
  int64_t width, stride;
  float *block, *scores, *alpha;
};

/// The same on a Q8_0 cache, with integer products.
template <class S> class Q8Latent {
public:
  Q8Latent(const LatentAttentionArgs &args, std::byte *scratch)
      : a(args), products({a.heads, kvBlocks(a.latent + a.rope), 0, a.latent, 1,
                           a.scale},
                          scratch) {}

  /// See FloatLatent; `first` is a multiple of kKvTile.
  void attend(const SequenceCache &cache, const float *q, int64_t heads,
              int64_t first, int64_t end, float *out, float *most, float *sum) {
    encode(q, heads);
    for (int64_t at = first; at < end; at += kQ8Group) {
      int64_t rows = end - at < kQ8Group ? end - at : kQ8Group;
      int64_t left = end - at - rows;
      products.setGroup(cache, at, rows, left < kQ8Group ? left : kQ8Group);
      if constexpr (requires { products.readAhead(heads, true); })
        products.readAhead(heads, at == first);
      products.score(heads);
      for (int64_t h = 0; h < heads; ++h)
        products.weigh(h, rows, most[h], sum[h]);
      for (int64_t b = 0; b < kvBlocks(a.latent); ++b) {
        products.transpose(b);
        products.sum(heads, b, at == first, out, a.latent);
      }
    }
  }

private:
  void encode(const float *q, int64_t heads) {
    if (q == encoded && heads <= encodedHeads)
      return; // A token has several spans.
    encoded = q;
    encodedHeads = heads;
    int64_t width = a.latent + a.rope;
    for (int64_t h = 0; h < heads; ++h)
      products.encode(h, 0, q + h * width, width);
  }

  const LatentAttentionArgs &a;
  typename S::Q8Products products;
  const float *encoded = nullptr;
  int64_t encodedHeads = 0;
};

/// Where the `splits` spans of what a sequence's rows see begin: multiples of
/// `length`.
struct Spans {
  int64_t length, count;

  MOE_INLINE Spans(const SequenceRows &sequence, int64_t splits) {
    int64_t visible = sequence.position + sequence.count;
    length = (visible + splits - 1) / splits;
    if (length < kLatentSpan && splits > 1)
      length = kLatentSpan;
    length = (length + kKvTile - 1) / kKvTile * kKvTile;
    count = (visible + length - 1) / length;
  }
};

/// Shares out `part`s of a sequence: token, span, group of kLatentHeads heads.
template <class S, class Part>
void attendSpans(const LatentAttentionArgs &a, const SequenceRows &sequence,
                 const Worker &worker, Part &part, float *stats) {
  const SequenceCache cache = {a.kv, sequence.pages};
  int64_t width = a.latent + a.rope;
  Spans spans(sequence, a.splits);
  int64_t groups = (a.heads + kLatentHeads - 1) / kLatentHeads;
  int64_t perToken = spans.count * groups;
  Range share =
      causalShare(1, sequence.count, perToken, sequence.position, worker);
  for (int64_t item = share.begin; item < share.end;) {
    int64_t t = item / perToken, span = item % perToken / groups;
    int64_t group = item % groups;
    int64_t taken =
        groups - group < share.end - item ? groups - group : share.end - item;
    item += taken;
    int64_t head = group * kLatentHeads, heads = taken * kLatentHeads;
    if (heads > a.heads - head)
      heads = a.heads - head;

    int64_t token = sequence.begin + t;
    float *row = a.out + (token * a.splits + span) * a.outStride;
    float *most = stats, *sum = stats + scratchFloats(a.heads);
    if (a.splits > 1) {
      most = row + a.heads * a.latent + head;
      sum = most + a.heads;
    }
    for (int64_t h = 0; h < heads; ++h) {
      most[h] = kMinusInfinity;
      sum[h] = 0;
    }
    int64_t first = span * spans.length, end = first + spans.length;
    if (end > sequence.position + t + 1)
      end = sequence.position + t + 1;
    float *out = row + head * a.latent;
    part.attend(cache, a.q + token * a.qStride + head * width, heads, first,
                end, out, most, sum);
    if (a.splits == 1)
      for (int64_t h = 0; h < heads; ++h)
        divideRow<S>(out + h * a.latent, a.latent, sum[h]);
  }
}

template <class S>
void run(const LatentAttentionArgs &a, const Step &step, const Worker &worker) {
  auto *stats = reinterpret_cast<float *>(worker.scratch);
  std::byte *scratch = worker.scratch + 2 * scratchFloats(a.heads) * 4;
  auto attend = [&](auto part) {
    forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
      attendSpans<S>(a, s, w, part, stats);
    });
  };
  if constexpr (requires { typename S::Q8Products; }) {
    if (a.kv.type == KvType::Q8_0)
      return attend(Q8Latent<S>(a, scratch));
  }
  attend(FloatLatent<S>(a, scratch));
}

/// Sums of a token's spans, weighted by exp(maximum of the span - maximum of
/// all).
template <class S>
void combineSpans(const LatentCombineArgs &a, const SequenceRows &sequence,
                  const Worker &worker) {
  Spans spans(sequence, a.splits);
  Range items = shareOf(int64_t(sequence.count) * a.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    int64_t t = sequence.begin + item / a.heads, head = item % a.heads;
    int64_t visible = sequence.position + item / a.heads + 1;
    int64_t used = (visible + spans.length - 1) / spans.length;
    const float *rows = a.x + t * a.splits * a.xStride;
    const float *stats = rows + a.heads * a.latent + head;
    // As if the maxima were the scores of as many rows, each of weight `sum`.
    float factors[kLatentSplits + S::kWidth], most = kMinusInfinity, ones = 0;
    for (int64_t s = 0; s < used; ++s)
      factors[s] = stats[s * a.xStride];
    softmaxBlock<S>(factors, used, most, ones);
    typename S::Num total = 0;
    for (int64_t s = 0; s < used; ++s)
      total += typename S::Num(factors[s]) * stats[s * a.xStride + a.heads];
    auto inverse = S::set(float(1 / total));
    float *out = a.out + t * a.outStride + head * a.latent;
    const float *x = rows + head * a.latent;
    forVectors<S>(0, a.latent, [&](int64_t c, auto lanes) {
      auto sum = S::zero();
      for (int64_t s = 0; s < used; ++s)
        sum =
            S::fma(S::set(factors[s]), lanes.load(x + s * a.xStride + c), sum);
      lanes.store(out + c, S::mul(sum, inverse));
    });
  }
}

/// Workers share out heads.
template <class S>
void run(const LatentCombineArgs &a, const Step &step, const Worker &worker) {
  forSequences(step, worker, [&](const SequenceRows &s, const Worker &w) {
    combineSpans<S>(a, s, w);
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_LATENTATTENTION_H
