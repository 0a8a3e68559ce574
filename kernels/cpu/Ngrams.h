//===- Ngrams.h - CPU kernels of n-gram tables ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_NGRAMS_H
#define MOE_KERNELS_CPU_NGRAMS_H

#include "kernels/Abi.h"
#include "kernels/Ngrams.h"
#include "kernels/cpu/Elementwise.h"

namespace moek {

/// Workers share rows of the table, so that those of one token are read from
/// the file at the same time.
template <class S>
void run(const NgramEmbedArgs &a, const Step &step, const Worker &worker) {
  const int64_t columns = ngramColumns(a.size, a.heads);
  const Range share = shareOf(step.tokens * columns, 1, worker);
  for (int32_t i = 0; i < step.sequenceCount; ++i) {
    const SequenceRows rows = step.sequence(i);
    for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
      const int64_t first = t * columns;
      if (first >= share.end || first + columns <= share.begin)
        continue;
      if (first >= share.begin)
        *ngramHistory(a, rows, rows.position + (t - rows.begin)) =
            float(ngramToken(a, t));
      forNgramRows(a, rows, t, [&](int64_t column, int64_t row) {
        if (first + column >= share.begin && first + column < share.end)
          weightRow<S>(a.table, 0, row, 0, a.table.cols,
                       a.out + t * a.outStride + column * a.table.cols);
      });
    }
  }
}

/// Returns the gate of a score, or NaN for one that is not finite: a gate of 0
/// or 1 would hide it.
inline double streamGate(double score) {
  constexpr double kLeast = 1e-6;
  double size = std::fabs(score);
  if (!(size < HUGE_VAL))
    return NAN;
  double root = std::sqrt(size > kLeast ? size : kLeast);
  return 1 / (1 + std::exp(-std::copysign(root, score)));
}

template <class S>
void run(const GateStreamsArgs &a, const Step &step, const Worker &worker) {
  const double scale = 1 / std::sqrt(double(a.cols));
  Range items = shareOf(int64_t(step.tokens) * a.streams, 1, worker);
  for (int64_t i = items.begin; i < items.end; ++i) {
    const float *q = a.q + i * a.cols, *k = a.k + i * a.cols;
    const float *value = a.value + i / a.streams * a.cols;
    float *out = a.out + i * a.cols;
    auto sum = S::zero();
    forVectors<S>(0, a.cols, [&](int64_t c, auto lanes) {
      sum = S::fma(lanes.load(q + c), lanes.load(k + c), sum);
    });
    const auto gate =
        S::set(float(streamGate(double(S::reduceAdd(sum)) * scale)));
    forVectors<S>(0, a.cols, [&](int64_t c, auto lanes) {
      lanes.store(out + c, S::mul(gate, lanes.load(value + c)));
    });
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_NGRAMS_H
