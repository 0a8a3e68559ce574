//===- Compress.h - CPU kernels of compressed caches -------------*- C++ -*-==//
//
// A compressed cache has one entry for several tokens. The softmax over an
// entry's tokens is kept as sums relative to a running maximum, column by
// column in vectors. So the state of a sequence does not grow with the
// compression ratio, and steps of any size give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_COMPRESS_H
#define MOE_KERNELS_CPU_COMPRESS_H

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
    const float *gate = a.gate + t * a.gateStride + c;
    const float *ape = a.ape + place * width + c;
    auto add = [&](Sum &to, int64_t at) {
      to.add(S::add(lanes.load(gate + at), lanes.load(ape + at)), S::set(1),
             lanes.load(kv + at));
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

/// Rotates elements `begin` to `begin` + `n` of a vector at `position`, by
/// pairs of neighbours; `begin` and `n` are even. Angles are double as in
/// RopeTable.
template <class S>
void rotateEntry(const EntryStoreArgs &a, int64_t position, int64_t begin,
                 int64_t n, float *x) {
  for (int64_t i = 0; i < n; i += 2) {
    double angle = double(position) * double(a.invFreq[(begin + i) / 2]);
    double c = std::cos(angle), s = std::sin(angle);
    double u = double(x[i]), v = double(x[i + 1]);
    x[i] = float(u * c - v * s);
    x[i + 1] = float(v * c + u * s);
  }
}

template <class S>
void run(const EntryStoreArgs &a, const Step &step, const Worker &worker) {
  forTokens(
      step, worker, [&](int64_t t, int64_t position, const SequenceRows &s) {
        if ((position + 1) % a.ratio != 0)
          return;
        const float *x = a.x + t * a.xStride;
        auto scale = rmsScale<S>(x, a.cols, a.eps);
        const int64_t still = a.cols - a.dim, begin = position + 1 - a.ratio;
        storeRow<S>({a.kv, s.pages}, position, [&](auto &row) {
          row.append(still, [&](int64_t at, int64_t n, float *to) {
            scaleRow<S>(x + at, scale, a.weight + at, n, to);
          });
          row.append(a.dim, [&](int64_t at, int64_t n, float *to) {
            scaleRow<S>(x + still + at, scale, a.weight + still + at, n, to);
            rotateEntry<S>(a, begin, at, n, to);
          });
        });
      });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_COMPRESS_H
