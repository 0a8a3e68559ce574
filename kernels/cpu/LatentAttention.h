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

  /// Heads of q over rows [first, end): weighted sums of latents, not yet
  /// divided by `sum`, with the maximum of the scores.
  void attend(const float *q, int64_t heads, int64_t first, int64_t end,
              float *out, float *most, float *sum) {
    for (int64_t at = first; at < end; at += kKeyTile) {
      int64_t keys = end - at < kKeyTile ? end - at : kKeyTile;
      readKvRows<S>(a.kv, at, keys, width, block, stride);
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
  void attend(const float *q, int64_t heads, int64_t first, int64_t end,
              float *out, float *most, float *sum) {
    encode(q, heads);
    for (int64_t at = first; at < end; at += kQ8Group) {
      int64_t rows = end - at < kQ8Group ? end - at : kQ8Group;
      products.setGroup(a.kv, at, rows);
      if constexpr (requires { products.readAhead(heads, true, rows); })
        products.readAhead(heads, at == first,
                           end - at < 2 * kQ8Group ? end - at : 2 * kQ8Group);
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

/// Where the `splits` spans of a step's rows [0, visible) begin: multiples of
/// `length`.
struct Spans {
  int64_t length, count;

  MOE_INLINE Spans(int64_t visible, int64_t splits) {
    length = (visible + splits - 1) / splits;
    if (length < kLatentSpan && splits > 1)
      length = kLatentSpan;
    length = (length + kKvTile - 1) / kKvTile * kKvTile;
    count = (visible + length - 1) / length;
  }
};

/// Shares out `part`s: token, span, group of kLatentHeads heads.
template <class S, class Part>
void attendSpans(const LatentAttentionArgs &a, const Step &step,
                 const Worker &worker, Part part, float *stats) {
  int64_t width = a.latent + a.rope;
  Spans spans(step.position + step.tokens, a.splits);
  int64_t groups = (a.heads + kLatentHeads - 1) / kLatentHeads;
  int64_t perToken = spans.count * groups;
  Range share = causalShare(1, step.tokens, perToken, step.position, worker);
  for (int64_t item = share.begin; item < share.end;) {
    int64_t t = item / perToken, span = item % perToken / groups;
    int64_t group = item % groups;
    int64_t taken =
        groups - group < share.end - item ? groups - group : share.end - item;
    item += taken;
    int64_t head = group * kLatentHeads, heads = taken * kLatentHeads;
    if (heads > a.heads - head)
      heads = a.heads - head;

    float *row = a.out + (t * a.splits + span) * a.outStride;
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
    if (end > step.position + t + 1)
      end = step.position + t + 1;
    float *out = row + head * a.latent;
    part.attend(a.q + t * a.qStride + head * width, heads, first, end, out,
                most, sum);
    if (a.splits == 1)
      for (int64_t h = 0; h < heads; ++h)
        divideRow<S>(out + h * a.latent, a.latent, sum[h]);
  }
}

template <class S>
void run(const LatentAttentionArgs &a, const Step &step, const Worker &worker) {
  auto *stats = reinterpret_cast<float *>(worker.scratch);
  std::byte *scratch = worker.scratch + 2 * scratchFloats(a.heads) * 4;
  if constexpr (requires { typename S::Q8Products; }) {
    if (a.kv.type == KvType::Q8_0)
      return attendSpans<S>(a, step, worker, Q8Latent<S>(a, scratch), stats);
  }
  attendSpans<S>(a, step, worker, FloatLatent<S>(a, scratch), stats);
}

/// Sums of a token's spans, weighted by exp(maximum of the span - maximum of
/// all). Workers share out heads.
template <class S>
void run(const LatentCombineArgs &a, const Step &step, const Worker &worker) {
  Spans spans(step.position + step.tokens, a.splits);
  Range items = shareOf(int64_t(step.tokens) * a.heads, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    int64_t t = item / a.heads, head = item % a.heads;
    int64_t visible = step.position + t + 1;
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

} // namespace moek

#endif // MOE_KERNELS_CPU_LATENTATTENTION_H
