//===- Residuals.h - Attention over earlier residual states -----*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_RESIDUALS_H
#define MOE_KERNELS_CPU_RESIDUALS_H

#include "kernels/Abi.h"
#include "kernels/cpu/Elementwise.h"

#include <cstring>

namespace moek {

/// The product of `weight` and x / sqrt(mean of squares + eps).
template <class S>
double residualScore(const float *x, const float *weight, int64_t cols,
                     float eps) {
  auto sum = S::zero();
  forVectors<S>(0, cols, [&](int64_t c, auto lanes) {
    sum = S::fma(lanes.load(x + c), lanes.load(weight + c), sum);
  });
  return double(S::reduceAdd(sum)) * double(rmsScale<S>(x, cols, eps));
}

/// Workers divide tokens. With fewer of them than workers, each computes the
/// scores of all, and its own columns of the sums.
template <class S>
void run(const ResidualMixArgs &a, const Step &step, const Worker &worker) {
  Range tokens{0, step.tokens}, columns{0, a.cols};
  if (step.tokens < worker.count)
    columns = shareOf(a.cols, kNormGrain, worker);
  else
    tokens = shareOf(step.tokens, 1, worker);
  if (columns.begin == columns.end)
    return;
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float *x = a.x + t * a.xStride;
    auto row = [&](int32_t i) {
      return i < a.count ? a.stack + t * a.stackStride + i * a.cols : x;
    };
    // These are in double, because they are few.
    double weights[kMaxResiduals + 1], most = -HUGE_VAL, sum = 0;
    for (int32_t i = 0; i <= a.count; ++i) {
      weights[i] = residualScore<S>(row(i), a.weight, a.cols, a.eps);
      most = weights[i] > most ? weights[i] : most;
    }
    for (int32_t i = 0; i <= a.count; ++i) {
      weights[i] = std::exp(weights[i] - most);
      sum += weights[i];
    }
    float *out = a.out + t * a.outStride;
    forVectors<S>(columns.begin, columns.end, [&](int64_t c, auto lanes) {
      auto mixed = S::zero();
      for (int32_t i = 0; i <= a.count; ++i)
        mixed = S::fma(S::set(typename S::Num(weights[i] / sum)),
                       lanes.load(row(i) + c), mixed);
      lanes.store(out + c, mixed);
    });
  }
}

template <class S>
void run(const ConcatArgs &a, const Step &step, const Worker &worker) {
  const int64_t all = a.first + a.second;
  Range tokens = shareOf(step.tokens, 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    std::memcpy(a.out + t * all, a.x + t * a.first,
                size_t(a.first) * sizeof(float));
    std::memcpy(a.out + t * all + a.first, a.y + t * a.second,
                size_t(a.second) * sizeof(float));
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_RESIDUALS_H
