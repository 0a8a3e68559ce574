//===- Compress.h - CPU kernels of compressed caches ------------*- C++ -*-===//
//
// A compressed cache has one entry for several tokens. The softmax over an
// entry's tokens is kept as sums relative to a running maximum, column by
// column in vectors. So the state of a sequence does not grow with the
// compression ratio, and steps of any size give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_COMPRESS_H
#define MOE_KERNELS_CPU_COMPRESS_H

#include "kernels/Abi.h"
#include "kernels/cpu/DeltaNet.h"
#include "kernels/cpu/Sparse.h"

namespace moek {

/// A softmax-weighted sum in progress, for one vector of columns.
template <class S> struct OnlineSoftmaxSum {
  using Vec = typename S::Vec;
  Vec most, weight, sum;

  static MOE_INLINE OnlineSoftmaxSum none() {
    return {S::set(kMinusInfinity), S::zero(), S::zero()};
  }
  template <class Lanes>
  static MOE_INLINE OnlineSoftmaxSum load(const float *p, int64_t cols,
                                          Lanes lanes) {
    return {lanes.load(p), lanes.load(p + cols), lanes.load(p + 2 * cols)};
  }
  template <class Lanes>
  MOE_INLINE void store(float *p, int64_t cols, Lanes lanes) const {
    lanes.store(p, most);
    lanes.store(p + cols, weight);
    lanes.store(p + 2 * cols, sum);
  }
  /// Adds `value` with the weight exp(`gate`) * `w`.
  MOE_INLINE void add(Vec gate, Vec w, Vec value) {
    gate = stored(gate);
    Vec next = S::max(most, gate);
    Vec before = S::exp(S::sub(most, next)), now = S::exp(S::sub(gate, next));
    most = next;
    weight = stored(S::fma(weight, before, S::mul(now, w)));
    sum = stored(S::fma(sum, before, S::mul(now, value)));
  }

private:
  /// Rounds as the state does, so that results do not depend on where a step
  /// ends.
  static MOE_INLINE Vec stored(Vec v) {
    if constexpr (S::kWidth > 1)
      return v;
    float kept;
    S::storePart(&kept, v, 1);
    return S::loadPart(&kept, 1);
  }
};

/// Processes the columns of `lanes` from `c` on, in all of a sequence's rows.
template <class S, class Lanes>
MOE_INLINE void compressColumns(const CompressArgs &a, const SequenceRows &rows,
                                int64_t c, Lanes lanes) {
  using Sum = OnlineSoftmaxSum<S>;
  const int64_t cols = a.cols, own = a.overlap ? cols : 0;
  const int64_t width = cols + own;
  float *state = stateOf(a.state, rows) + c;
  Sum now = Sum::none(), first = Sum::none(), before = Sum::none();
  if (rows.position > 0) {
    now = Sum::load(state, cols, lanes);
    if (a.overlap) {
      first = Sum::load(state + 3 * cols, cols, lanes);
      before = Sum::load(state + 6 * cols, cols, lanes);
    }
  }
  int64_t place = rows.position % a.ratio;
  for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
    const float *kv = a.kv + t * a.kvStride + c;
    const float *gate = a.gate ? a.gate + t * a.gateStride + c : nullptr;
    const float *ape = a.ape ? a.ape + place * width + c : nullptr;
    auto add = [&](Sum &to, int64_t at) {
      auto score = gate ? lanes.load(gate + at) : S::zero();
      if (ape)
        score = S::add(score, lanes.load(ape + at));
      to.add(score, S::set(1), lanes.load(kv + at));
    };
    add(now, own);
    if (a.overlap)
      add(first, 0);
    if (++place < a.ratio)
      continue;
    place = 0;
    if (a.overlap)
      now.add(before.most, before.weight, before.sum);
    lanes.store(a.out + t * a.outStride + c, S::div(now.sum, now.weight));
    before = first;
    now = first = Sum::none();
  }
  now.store(state, cols, lanes);
  if (a.overlap) {
    first.store(state + 3 * cols, cols, lanes);
    before.store(state + 6 * cols, cols, lanes);
  }
}

template <class S>
void run(const CompressArgs &a, const Step &step, const Worker &worker) {
  forSequences(step, worker, [&](const SequenceRows &rows, const Worker &w) {
    Range columns = shareOf(a.cols, 16, w);
    forVectors<S>(columns.begin, columns.end, [&](int64_t c, auto lanes) {
      compressColumns<S>(a, rows, c, lanes);
    });
  });
}

/// Rotates `n` elements from the `begin`-th of the rotated ones on, at
/// `position`; partnerOf(i) is the i-th rotated element before its rotation.
/// Angles are double as in RopeTable.
template <class PartnerOf>
void rotateEntry(const EntryStoreArgs &a, int64_t position, int64_t begin,
                 int64_t n, float *x, PartnerOf partnerOf) {
  const int64_t half = a.dim / 2, far = a.neox ? half : 1;
  for (int64_t i = begin; i < begin + n; ++i) {
    const bool isFirst = a.neox ? i < half : i % 2 == 0;
    const double angle =
        double(position) * double(a.invFreq[a.neox ? i % half : i / 2]);
    const double sine = isFirst ? -std::sin(angle) : std::sin(angle);
    float &own = x[i - begin];
    own = float(double(own) * std::cos(angle) +
                double(partnerOf(isFirst ? i + far : i - far)) * sine);
  }
}

template <class S>
void run(const EntryStoreArgs &a, const Step &step, const Worker &worker) {
  forTokens(step, worker,
            [&](int64_t t, int64_t position, const SequenceRows &s) {
              if ((position + 1) % a.ratio != 0)
                return;
              const float *x = a.x + t * a.xStride;
              auto scale = rmsScale<S>(x, a.cols, a.eps);
              const int64_t lead = a.cols - a.dim - a.tail, tail = lead + a.dim;
              const int64_t begin = position + 1 - a.ratio;
              auto normed = [&](int64_t at, int64_t n, float *to) {
                scaleRow<S>(x + at, scale, a.weight + at, n, to);
              };
              storeRow<S>({a.kv, s.pages}, position, [&](auto &row) {
                row.append(lead, normed);
                row.append(a.dim, [&](int64_t at, int64_t n, float *to) {
                  normed(lead + at, n, to);
                  rotateEntry(a, begin, at, n, to, [&](int64_t i) {
                    float partner;
                    normed(lead + i, 1, &partner);
                    return partner;
                  });
                });
                row.append(a.tail, [&](int64_t at, int64_t n, float *to) {
                  normed(tail + at, n, to);
                });
              });
            });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_COMPRESS_H
