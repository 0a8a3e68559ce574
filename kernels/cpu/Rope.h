//===- Rope.h - CPU kernels of positions and of cache rows ------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ROPE_H
#define MOE_KERNELS_CPU_ROPE_H

#include "kernels/Abi.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/KvRows.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// Angles are double: at position 10^6 a float angle would be off by 0.03.
template <class S>
void run(const RopeTableArgs &a, const Step &step, const Worker &worker) {
  int32_t half = a.dim / 2;
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              float *row = a.out + t * a.dim;
              for (int32_t i = 0; i < half; ++i) {
                double angle = double(position) * double(a.invFreq[i]);
                row[i] = float(std::cos(angle) * double(a.scale));
                row[half + i] = float(std::sin(angle) * double(a.scale));
              }
            });
}

template <class S>
void run(const PositionScaleArgs &a, const Step &step, const Worker &worker) {
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              int64_t periods = (position + a.offset) / a.length;
              auto factor = S::set(typename S::Num(
                  1 + double(a.slope) * std::log(double(1 + periods))));
              const float *x = a.x + t * a.cols;
              float *out = a.out + t * a.cols;
              forVectors<S>(0, a.cols, [&](int64_t c, auto lanes) {
                lanes.store(out + c, S::mul(lanes.load(x + c), factor));
              });
            });
}

template <class S>
void run(const EmbedPositionsArgs &a, const Step &step, const Worker &worker) {
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &) {
              weightRow<S>(a.table, 0, position, 0, a.cols, a.out + t * a.cols);
            });
}

/// Rotates pairs of neighbours: pair i, for i in [begin, end), is at x[2 * (i -
/// begin)] and is rotated by angle i of `table` (`half` cosines, then `half`
/// sines). `out` may be x.
template <class S>
void rotateNeighbours(const float *table, int64_t half, int64_t begin,
                      int64_t end, const float *x, float *out) {
  int64_t i = begin;
  if constexpr (S::kWidth > 1)
    for (; i + S::kWidth / 2 <= end; i += S::kWidth / 2) {
      auto v = S::load(x + 2 * (i - begin));
      auto turned = S::mul(S::swapPairs(v), S::dupPairs(table + half + i));
      S::store(out + 2 * (i - begin),
               S::fmaAlternate(v, S::dupPairs(table + i), turned));
    }
  for (; i < end; ++i) {
    typename S::Num c = table[i], s = table[half + i];
    typename S::Num u = x[2 * (i - begin)], v = x[2 * (i - begin) + 1];
    out[2 * (i - begin)] = float(u * c - v * s);
    out[2 * (i - begin) + 1] = float(v * c + u * s);
  }
}

/// Rotates pairs (i, i + dim / 2).
template <class S>
void rotateHalves(const float *table, int64_t dim, float *x) {
  int64_t half = dim / 2;
  forVectors<S>(0, half, [&](int64_t i, auto lanes) {
    auto c = lanes.load(table + i), s = lanes.load(table + half + i);
    auto u = lanes.load(x + i), v = lanes.load(x + half + i);
    lanes.store(x + i, S::sub(S::mul(u, c), S::mul(v, s)));
    lanes.store(x + half + i, S::fma(u, s, S::mul(v, c)));
  });
}

template <class S>
void run(const RopeArgs &a, const Step &step, const Worker &worker) {
  Range items = shareOf(int64_t(step.tokens) * a.heads, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    int64_t t = i / a.heads, head = i % a.heads;
    float *x = a.x + t * a.stride + head * a.headStride + a.offset;
    const float *table = a.table + t * a.dim;
    if (a.neox)
      rotateHalves<S>(table, a.dim, x);
    else
      rotateNeighbours<S>(table, a.dim / 2, 0, a.dim / 2, x, x);
  }
}

template <class S>
void run(const MlaLatentArgs &a, const Step &step, const Worker &worker) {
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &s) {
              const float *x = a.x + t * a.stride;
              const float *key = x + a.latent, *table = a.table + t * a.rope;
              auto scale = rmsScale<S>(x, a.latent, a.eps);
              const int64_t at = RingCache(a.kv, s.pages).row(position);
              KvRowWriter<S> row(a.kv, at);
              row.append(a.latent, [&](int64_t begin, int64_t n, float *to) {
                scaleRow<S>(x + begin, scale, a.weight + begin, n, to);
              });
              row.append(a.rope, [&](int64_t begin, int64_t n, float *to) {
                rotateNeighbours<S>(table, a.rope / 2, begin / 2,
                                    (begin + n) / 2, key + begin, to);
              });
              // Q8_0 blocks need no mark: their scale is NaN already.
              if (!row.finish(false) && a.kv.type != KvType::Q8_0)
                markNaN<S>(a.kv, at, 0);
            });
}

/// Stores a head's key or value from column `column` of a row on. Returns
/// whether all of it is finite.
template <class S>
bool storeKvPart(const KvView &kv, int64_t row, int64_t column, const float *x,
                 int64_t count) {
  KvRowWriter<S> writer(kv, row, column);
  writer.append(count, [&](int64_t begin, int64_t n, float *to) {
    std::memcpy(to, x + begin, size_t(n) * sizeof(float));
  });
  return writer.finish(true);
}

template <class S>
void run(const KvStoreArgs &a, const Step &step, const Worker &worker) {
  const KvColumns parts{a.key, a.value, 1, a.heads};
  forTokens(
      step, worker, [&](int64_t t, int64_t position, const SequenceRows &s) {
        int64_t row = RingCache(a.kv, a.ring, s).row(position);
        for (int64_t h = 0; h < a.heads; ++h) {
          bool key = storeKvPart<S>(a.kv, row, parts.keyAt(h),
                                    a.k + t * a.kStride + h * a.key, a.key);
          bool value =
              storeKvPart<S>(a.kv, row, parts.valueAt(h),
                             a.v + t * a.vStride + h * a.value, a.value);
          // A weight of zero for the row could otherwise hide the NaN.
          if (!key || !value)
            markNaN<S>(a.kv, row, parts.keyAt(h));
        }
      });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ROPE_H
