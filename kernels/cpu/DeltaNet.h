//===- DeltaNet.h - Drivers of gated delta nets -----------------*- C++ -*-===//
//
// A sequence's rows one after the other: what a row costs with vectors over
// value columns, 3 * key * value multiply-adds of a head, is what a form in
// chunks of rows needs too, which turns them into products of matrices for
// machines that have such units. A worker keeps its columns of S in L1 from the
// first row to the last, so that S is read and written once per step; steps of
// any size give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_DELTANET_H
#define MOE_KERNELS_CPU_DELTANET_H

#include "kernels/Scratch.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/Sequences.h"

namespace moek {

/// A sequence's row of a state.
MOE_INLINE float *stateOf(const KvView &state, const SequenceRows &rows) {
  return reinterpret_cast<float *>(state.data + rows.state * state.rowStride);
}

template <class S>
void run(const RegroupArgs &a, const Step &step, const Worker &worker) {
  Range items = shareOf(int64_t(step.tokens) * a.groups, 4, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    int64_t t = i / a.groups, group = i % a.groups;
    const float *from = a.x + t * a.xStride + group * a.width + a.offset;
    float *to = a.out + t * a.outStride;
    for (int64_t part : a.parts) {
      forVectors<S>(0, part, [&](int64_t c, auto lanes) {
        lanes.store(to + group * part + c, lanes.load(from + c));
      });
      from += part;
      to += a.groups * part;
    }
  }
}

/// Rows of one sequence: columns `begin` to `begin` + kWidth, or those of
/// `lanes`, which are `count`.
template <class S, class Lanes>
MOE_INLINE void convolveColumns(const ShortConvArgs &a,
                                const SequenceRows &rows, int64_t begin,
                                int64_t count, Lanes lanes) {
  using Vec = typename S::Vec;
  Vec weight[kMostTaps], past[kMostTaps];
  float *kept = stateOf(a.state, rows) + begin;
  const int32_t before = a.taps - 1;
  for (int32_t j = 0; j < a.taps; ++j) {
    alignas(64) float column[16] = {};
    for (int64_t c = 0; c < count; ++c)
      column[c] = a.weight[(begin + c) * a.taps + j];
    weight[j] = S::load(column);
    if (j < before)
      past[j] = rows.position == 0 ? S::zero() : lanes.load(kept + j * a.cols);
  }
  for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
    Vec x = lanes.load(a.x + t * a.xStride + begin);
    Vec y = S::mul(weight[before], x);
    for (int32_t j = 0; j < before; ++j)
      y = S::fma(weight[j], past[j], y);
    lanes.store(a.out + t * a.outStride + begin, timesSigmoid<S>(y, y));
    for (int32_t j = 1; j < before; ++j)
      past[j - 1] = past[j];
    if (before > 0)
      past[before - 1] = x;
  }
  for (int32_t j = 0; j < before; ++j)
    lanes.store(kept + j * a.cols, past[j]);
}

template <class S>
void run(const ShortConvArgs &a, const Step &step, const Worker &worker) {
  static_assert(S::kWidth <= 16);
  forSequences(step, worker, [&](const SequenceRows &rows, const Worker &w) {
    Range columns = shareOf(a.cols, 16, w);
    forVectors<S>(columns.begin, columns.end, [&](int64_t c, auto lanes) {
      int64_t left = columns.end - c;
      convolveColumns<S>(a, rows, c, left < S::kWidth ? left : S::kWidth,
                         lanes);
    });
  });
}

/// In double: a few numbers of a token.
template <class S>
void run(const DeltaGatesArgs &a, const Step &step, const Worker &worker) {
  Range items = shareOf(step.tokens * a.heads, 16, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    int64_t t = i / a.heads, head = i % a.heads;
    double x = double(a.alpha[i]) + double(a.dt[head]);
    double softplus = (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x));
    float *out = a.out + 2 * t * a.heads + head;
    out[0] = float(1 / (1 + std::exp(-double(a.beta[i]))));
    out[a.heads] = float(std::exp(double(a.a[head]) * softplus));
  }
}

/// Columns `first` to `first` + kDeltaColumns, or up to the last, of values of
/// a head, in all rows of a sequence.
template <class S>
void applyDeltaRule(const DeltaRuleArgs &a, const SequenceRows &rows,
                    int64_t head, int64_t first, float *held) {
  using Vec = typename S::Vec;
  constexpr int64_t kColumns = kDeltaColumns;
  constexpr int kVecs = int(kColumns / S::kWidth);
  const int64_t key = a.key, value = a.value;
  int64_t count = value - first < kColumns ? value - first : kColumns;
  float *state = stateOf(a.state, rows) + a.begin + head * key * value + first;
  for (int64_t d = 0; d < key; ++d)
    for (int64_t c = 0; c < kColumns; ++c)
      held[d * kColumns + c] =
          rows.position > 0 && c < count ? state[d * value + c] : 0;

  int64_t keyHead = a.tiled ? head % a.keyHeads : head / (a.heads / a.keyHeads);
  const double root = std::sqrt(double(key));
  for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
    const float *q = a.x + t * a.xStride + keyHead * key;
    const float *k = q + a.keyHeads * key;
    alignas(64) float v[kColumns] = {}, out[kColumns];
    std::memcpy(
        v, a.x + t * a.xStride + 2 * a.keyHeads * key + head * value + first,
        size_t(count) * sizeof(float));
    // Of a sum of squares, not a mean.
    float each = a.eps / float(key);
    auto ofQuery = double(rmsScale<S>(q, key, each)) / double(key);
    auto ofKey = typename S::Num(double(rmsScale<S>(k, key, each)) / root);
    const float *gates = a.gates + 2 * t * a.heads + head;
    typename S::Num strength = gates[0], decay = gates[a.heads];

    Vec e[kVecs], o[kVecs];
    for (int j = 0; j < kVecs; ++j)
      e[j] = o[j] = S::zero();
    for (int64_t d = 0; d < key; ++d) {
      Vec x = S::set(k[d]);
      for (int j = 0; j < kVecs; ++j)
        e[j] = S::fma(x, S::load(held + d * kColumns + j * S::kWidth), e[j]);
    }
    for (int j = 0; j < kVecs; ++j)
      e[j] = S::mul(S::set(strength * ofKey),
                    S::sub(S::load(v + j * S::kWidth),
                           S::mul(S::set(decay * ofKey), e[j])));
    for (int64_t d = 0; d < key; ++d) {
      Vec x = S::set(k[d]), y = S::set(q[d]);
      for (int j = 0; j < kVecs; ++j) {
        float *at = held + d * kColumns + j * S::kWidth;
        Vec s = S::fma(x, e[j], S::mul(S::set(decay), S::load(at)));
        S::store(at, s);
        o[j] = S::fma(y, s, o[j]);
      }
    }
    for (int j = 0; j < kVecs; ++j)
      S::store(out + j * S::kWidth,
               S::mul(S::set(typename S::Num(ofQuery)), o[j]));
    std::memcpy(a.out + t * a.outStride + head * value + first, out,
                size_t(count) * sizeof(float));
  }
  for (int64_t d = 0; d < key; ++d)
    std::memcpy(state + d * value, held + d * kColumns,
                size_t(count) * sizeof(float));
}

template <class S>
void run(const DeltaRuleArgs &a, const Step &step, const Worker &worker) {
  int64_t blocks = (a.value + kDeltaColumns - 1) / kDeltaColumns;
  forSequences(step, worker, [&](const SequenceRows &rows, const Worker &w) {
    Range items = shareOf(a.heads * blocks, 1, w);
    for (int64_t i = items.begin; i < items.end; ++i)
      applyDeltaRule<S>(a, rows, i / blocks, i % blocks * kDeltaColumns,
                        reinterpret_cast<float *>(w.scratch));
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_DELTANET_H
