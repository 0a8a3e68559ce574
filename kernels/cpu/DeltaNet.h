//===- DeltaNet.h - CPU kernels of recurrent layers -------------*- C++ -*-===//
//
// S is read and written once per step. A few rows (tokens) of a sequence are
// processed one after the other, many in chunks (DeltaChunks.h). The reference
// always runs the recurrence row by row.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_DELTANET_H
#define MOE_KERNELS_CPU_DELTANET_H

#include "kernels/Abi.h"
#include "kernels/cpu/DeltaChunks.h"

namespace moek {

template <class S>
void run(const RegroupArgs &a, const Step &step, const Worker &worker) {
  Range items = shareOf(int64_t(step.tokens) * a.groups, 4, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    int64_t t = i / a.groups, group = i % a.groups;
    const float *from = a.x + t * a.xStride + group * a.width + a.offset;
    float *to = a.out + t * a.outStride;
    for (int64_t part : {a.first, a.second, a.third}) {
      forVectors<S>(0, part, [&](int64_t c, auto lanes) {
        lanes.store(to + group * part + c, lanes.load(from + c));
      });
      from += part;
      to += a.groups * part;
    }
  }
}

/// Number of columns that a worker convolves from a sequence's first row to its
/// last. It holds their weights, and reads 2 KiB of each row, whose next lines
/// the CPU prefetches. Rows may be powers of two apart: with a narrower block
/// they would evict each other from the few cache sets that they map to before
/// the next block reads the rest of their lines.
inline constexpr int64_t kConvColumns = 512;

/// Convolves columns `begin` to `begin` + `count` of a sequence's rows, which
/// are in one part of x. kTaps is the number of taps without a dilation, or 0
/// for any number and dilation.
template <class S, int kTaps, bool kSilu>
void convolveColumns(const ShortConvArgs &a, const SequenceRows &rows,
                     int64_t begin, int64_t count) {
  const int32_t taps = kTaps > 0 ? kTaps : a.taps, last = taps - 1;
  const int32_t dilation = kTaps > 0 ? 1 : a.dilation;
  const int32_t before = last * dilation;
  const float *const parts[] = {a.x, a.second, a.third};
  const float *const weights[] = {a.weight, a.secondWeight, a.thirdWeight};
  const int64_t part = begin / a.xStride, column = begin % a.xStride;
  alignas(64) float weight[kMaxTaps][kConvColumns], zeros[kConvColumns] = {};
  for (int64_t c = 0; c < count; ++c)
    for (int32_t j = 0; j < taps; ++j)
      weight[j][c] = weights[part][(column + c) * taps + j];
  const float *x = parts[part] + rows.begin * a.xStride + column;
  const float *bias = a.bias ? a.bias + begin : zeros;
  float *kept = stateOf(a.state, rows) + begin;
  // Input of row t. Rows before the first one are in the state.
  auto input = [&](int64_t t) {
    return t >= 0              ? x + t * a.xStride
           : rows.position > 0 ? kept + (t + before) * a.cols
                               : zeros;
  };
  for (int64_t t = 0; t < rows.count; ++t) {
    const float *in[kMaxTaps];
    for (int32_t j = 0; j < taps; ++j)
      in[j] = input(t - before + j * dilation);
    float *out = a.out + (rows.begin + t) * a.outStride + begin;
    forVectors<S>(0, count, [&](int64_t c, auto lanes) {
      auto y = S::fma(S::load(weight[last] + c), lanes.load(in[last] + c),
                      lanes.load(bias + c));
      for (int32_t j = 0; j < last; ++j)
        y = S::fma(S::load(weight[j] + c), lanes.load(in[j] + c), y);
      lanes.store(out + c, kSilu ? timesSigmoid<S>(y, y) : y);
    });
  }
  // In ascending order, because rows that stay in the state move to lower
  // places.
  for (int32_t j = 0; j < before; ++j)
    std::memmove(kept + j * a.cols, input(rows.count - before + j),
                 size_t(count) * sizeof(float));
}

template <class S>
void run(const ShortConvArgs &a, const Step &step, const Worker &worker) {
  const int32_t taps = a.dilation == 1 ? a.taps : 0;
  auto *convolve = a.silu      ? taps == 4 ? convolveColumns<S, 4, true>
                                           : convolveColumns<S, 0, true>
                        : taps == 3 ? convolveColumns<S, 3, false>
                               : convolveColumns<S, 0, false>;
  forSequences(step, worker, [&](const SequenceRows &rows, const Worker &w) {
    Range columns = shareOf(a.cols, 16, w);
    for (int64_t c = columns.begin, end; c < columns.end; c = end) {
      // First the end of the part, then the nearest of the limits.
      end = (c / a.xStride + 1) * a.xStride;
      end = end < columns.end ? end : columns.end;
      end = end < c + kConvColumns ? end : c + kConvColumns;
      convolve(a, rows, c, end - c);
    }
  });
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + t) with t = e^-|x|, and ln(1 + t) =
/// 2 artanh(t / (2 + t)); each term of that series is at most a ninth of the
/// one before. NaN for NaN.
template <class S> typename S::Vec softplusOf(typename S::Vec x) {
  auto t = S::exp(S::min(S::sub(S::zero(), x), x));
  auto z = S::div(t, S::add(S::set(2), t)), square = S::mul(z, z);
  auto sum = S::zero();
  for (int n = 15; n > 0; n -= 2)
    sum = S::fma(sum, square, S::set(1.0f / float(n)));
  return S::fma(S::add(z, z), sum, S::max(S::zero(), x));
}

/// Computes a head's decays of channels. Unlike those of heads they are many:
/// the library's functions would take a tenth of a model's time.
template <class S>
void gateChannels(const DeltaGatesArgs &a, int64_t t, int64_t head) {
  const int64_t each = a.decays / a.heads, first = head * each;
  const float *alpha = a.alpha + t * a.decays + first, *dt = a.dt + first;
  float *out = a.out + t * (a.heads + a.decays) + a.heads + first;
  const auto rate = S::set(a.a[head]), steep = S::set(std::fabs(a.a[head]));
  forVectors<S>(0, each, [&](int64_t c, auto lanes) {
    auto x = S::add(lanes.load(alpha + c), lanes.load(dt + c));
    auto log = a.floor < 0 ? timesSigmoid<S>(S::set(a.floor), S::mul(steep, x))
                           : S::mul(rate, softplusOf<S>(x));
    lanes.store(out + c, S::exp(log));
  });
}

/// The gates of heads are computed in double: they are only a few numbers per
/// token.
template <class S>
void run(const DeltaGatesArgs &a, const Step &step, const Worker &worker) {
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const bool channels = a.decays != a.heads;
  Range items = shareOf(step.tokens * a.heads, channels ? 1 : 16, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    int64_t t = i / a.heads, head = i % a.heads;
    float *out = a.out + t * (a.heads + a.decays) + head;
    if (channels) {
      *out = float(sigmoid(double(a.beta[i])));
      gateChannels<S>(a, t, head);
      continue;
    }
    double x = double(a.alpha[i]) + double(a.dt[head]);
    double rate = double(a.a[head]), floor = double(a.floor);
    double softplus = (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x));
    out[0] = float(a.beta ? sigmoid(double(a.beta[i])) : softplus);
    out[a.heads] = float(std::exp(
        floor < 0 ? floor * sigmoid(std::fabs(rate) * x) : rate * softplus));
  }
}

/// Applies the recurrence to the value columns `first` to `first` +
/// kDeltaColumns (or to the last) of a head, in all rows of a sequence one
/// after the other. The worker keeps these columns of S in L1 from the first
/// row to the last.
template <class S>
void applyDeltaRule(const DeltaRuleArgs &a, const SequenceRows &rows,
                    const DeltaHead &head, int64_t first, float *held) {
  using Vec = typename S::Vec;
  constexpr int64_t kColumns = kDeltaColumns;
  constexpr int kVecs = int(kColumns / S::kWidth);
  const int64_t key = a.key, value = a.value;
  int64_t count = value - first < kColumns ? value - first : kColumns;
  float *state =
      stateOf(a.state, rows) + a.begin + head.head * key * value + first;
  for (int64_t d = 0; d < key; ++d)
    for (int64_t c = 0; c < kColumns; ++c)
      held[d * kColumns + c] =
          rows.position > 0 && c < count ? state[d * value + c] : 0;

  for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
    const float *row = a.x + t * a.xStride;
    const float *q = row + head.query, *k = row + head.key;
    alignas(64) float v[kColumns] = {}, out[kColumns];
    std::memcpy(v, row + head.value + first, size_t(count) * sizeof(float));
    DeltaScales<S> scales(a, q, k);
    const DeltaRowGates gates(a, t, head.head);

    Vec e[kVecs], o[kVecs];
    for (int j = 0; j < kVecs; ++j)
      e[j] = o[j] = S::zero();
    if (!a.sums)
      for (int64_t d = 0; d < key; ++d) {
        Vec x = S::mul(S::set(k[d]), S::set(gates.decay(d)));
        for (int j = 0; j < kVecs; ++j)
          e[j] = S::fma(x, S::load(held + d * kColumns + j * S::kWidth), e[j]);
      }
    for (int j = 0; j < kVecs; ++j)
      e[j] = S::mul(
          S::set(typename S::Num(gates.strength) * scales.key),
          S::sub(S::load(v + j * S::kWidth), S::mul(S::set(scales.key), e[j])));
    for (int64_t d = 0; d < key; ++d) {
      Vec x = S::set(k[d]), y = S::set(q[d]), fade = S::set(gates.decay(d));
      for (int j = 0; j < kVecs; ++j) {
        float *at = held + d * kColumns + j * S::kWidth;
        Vec s = S::fma(x, e[j], S::mul(fade, S::load(at)));
        S::store(at, s);
        o[j] = S::fma(y, s, o[j]);
      }
    }
    Vec skip = S::set(a.skip ? a.skip[head.head] : 0);
    for (int j = 0; j < kVecs; ++j) {
      Vec y = S::mul(S::set(typename S::Num(scales.query)), o[j]);
      S::store(out + j * S::kWidth,
               a.skip ? S::fma(skip, S::load(v + j * S::kWidth), y) : y);
    }
    std::memcpy(a.out + t * a.outStride + head.head * value + first, out,
                size_t(count) * sizeof(float));
  }
  for (int64_t d = 0; d < key; ++d)
    std::memcpy(state + d * value, held + d * kColumns,
                size_t(count) * sizeof(float));
}

/// From this number of rows of a sequence on, chunks take less time than the
/// recurrence.
inline constexpr int64_t kLeastDeltaChunk = 7;

template <class S>
void run(const DeltaRuleArgs &a, const Step &step, const Worker &worker) {
  int64_t blocks = (a.value + kDeltaColumns - 1) / kDeltaColumns;
  forSequences(step, worker, [&](const SequenceRows &rows, const Worker &w) {
    Range items = shareOf(a.heads * blocks, 1, w);
    while (items.begin < items.end) {
      int64_t head = items.begin / blocks, next = (head + 1) * blocks;
      int64_t last = next < items.end ? next : items.end;
      int64_t first = (items.begin - head * blocks) * kDeltaColumns;
      int64_t end = (last - head * blocks) * kDeltaColumns;
      end = end < a.value ? end : a.value;
      items.begin = last;
      if constexpr (S::kWidth > 1)
        if (rows.count >= kLeastDeltaChunk) {
          DeltaChunks<S>(a, rows, head, first, end, w.scratch).run();
          continue;
        }
      for (; first < end; first += kDeltaColumns)
        applyDeltaRule<S>(a, rows, {a, head}, first,
                          reinterpret_cast<float *>(w.scratch));
    }
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_DELTANET_H
