//===- HyperConnections.h - CPU kernels of hyper-connections ----*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_HYPERCONNECTIONS_H
#define MOE_KERNELS_CPU_HYPERCONNECTIONS_H

#include "kernels/Abi.h"
#include "kernels/cpu/Elementwise.h"

namespace moek {

/// Divides the `n` numbers `stride` apart by their sum + eps.
MOE_INLINE void normalize(double *x, int32_t n, int32_t stride, double eps) {
  double sum = eps;
  for (int32_t i = 0; i < n; ++i)
    sum += x[i * stride];
  for (int32_t i = 0; i < n; ++i)
    x[i * stride] /= sum;
}

/// Computes a token's weights of its residual streams, in double: they are few.
template <class S>
void mixStreams(const HyperWeightsArgs &a, const float *x, float *out) {
  const int32_t n = a.streams;
  const double eps = double(a.eps);
  auto logit = [&](int32_t i, int32_t part) {
    return double(x[i]) * double(a.scale[part]) + double(a.base[i]);
  };
  auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  for (int32_t i = 0; i < n; ++i)
    out[i] = float(sigmoid(logit(i, 0)) + eps);
  if (a.cols == n)
    return;
  for (int32_t i = n; i < 2 * n; ++i)
    out[i] = float(2 * sigmoid(logit(i, 1)));
  double mix[kMaxStreams * kMaxStreams];
  for (int32_t from = 0; from < n; ++from) {
    double *row = mix + from * n, most = -HUGE_VAL;
    for (int32_t to = 0; to < n; ++to) {
      row[to] = logit(2 * n + from * n + to, 2);
      most = row[to] > most ? row[to] : most;
    }
    for (int32_t to = 0; to < n; ++to)
      row[to] = std::exp(row[to] - most);
    normalize(row, n, 1, 0);
    for (int32_t to = 0; to < n; ++to)
      row[to] += eps;
  }
  for (int32_t i = 0; i < a.iterations; ++i) {
    for (int32_t from = 0; from < n && i > 0; ++from)
      normalize(mix + from * n, n, 1, eps);
    for (int32_t to = 0; to < n; ++to)
      normalize(mix + to, n, n, eps);
  }
  for (int32_t i = 0; i < n * n; ++i)
    out[2 * n + i] = float(mix[i]);
}

template <class S>
void run(const HyperWeightsArgs &a, const Step &step, const Worker &worker) {
  Range tokens = shareOf(step.tokens, 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    mixStreams<S>(a, a.x + t * a.xStride, a.out + t * a.outStride);
}

/// Calls body(token, begin, end) for this worker's column ranges of all rows of
/// `cols` columns.
template <class Body>
MOE_INLINE void forParts(int64_t cols, const Step &step, const Worker &worker,
                         Body body) {
  int64_t parts = (cols + kFlatGrain - 1) / kFlatGrain;
  Range range = shareOf(step.tokens * parts, 1, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    int64_t begin = i % parts * kFlatGrain, end = begin + kFlatGrain;
    body(i / parts, begin, end < cols ? end : cols);
  }
}

template <class S>
void run(const HyperCollapseArgs &a, const Step &step, const Worker &worker) {
  forParts(a.cols, step, worker, [&](int64_t t, int64_t begin, int64_t end) {
    const float *x = a.x + t * a.xStride;
    const float *weights =
        a.weights ? a.weights + t * a.weightsStride : nullptr;
    const float equal = 1 / float(a.streams);
    float *out = a.out + t * a.outStride;
    forVectors<S>(begin, end, [&](int64_t c, auto lanes) {
      auto sum = S::zero();
      for (int32_t i = 0; i < a.streams; ++i)
        sum = S::fma(S::set(weights ? weights[i] : equal),
                     lanes.load(x + i * a.cols + c), sum);
      lanes.store(out + c, sum);
    });
  });
}

template <class S>
void run(const HyperSpreadArgs &a, const Step &step, const Worker &worker) {
  const int32_t n = a.streams;
  forParts(a.cols, step, worker, [&](int64_t t, int64_t begin, int64_t end) {
    const float *y = a.y + t * a.yStride;
    float *out = a.out + t * a.outStride;
    const float *x = a.x ? a.x + t * a.xStride : nullptr;
    const float *post = a.x ? a.weights + t * a.weightsStride + n : nullptr;
    for (int32_t j = 0; j < n; ++j)
      forVectors<S>(begin, end, [&](int64_t c, auto lanes) {
        auto sum = lanes.load(y + c);
        if (x) {
          sum = S::mul(S::set(post[j]), sum);
          for (int32_t i = 0; i < n; ++i)
            sum = S::fma(S::set(post[n + i * n + j]),
                         lanes.load(x + i * a.cols + c), sum);
        }
        lanes.store(out + j * a.cols + c, sum);
      });
  });
}

template <class S>
void run(const ClampedMulArgs &a, const Step &step, const Worker &worker) {
  Range range = shareOf(int64_t(step.tokens) * a.rowsPerToken * a.cols,
                        kFlatGrain, worker);
  const auto most = S::set(a.limit), least = S::set(-a.limit);
  forVectors<S>(range.begin, range.end, [&](int64_t i, auto lanes) {
    // min and max return their second operand if one is NaN.
    auto gate = lanes.load(a.gate + i);
    if (a.soft > 0) {
      auto active = timesSigmoid<S>(softcapped<S>(gate, a.limit), gate);
      auto soft = softcapped<S>(lanes.load(a.up + i), a.soft);
      lanes.store(a.out + i, S::mul(active, soft));
      return;
    }
    if (!a.activated)
      gate = S::min(most, gate);
    auto up = S::max(least, S::min(most, lanes.load(a.up + i)));
    auto active = timesSigmoid<S>(gate, gate);
    if (a.activated)
      active = S::min(most, active);
    lanes.store(a.out + i, S::mul(active, up));
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_HYPERCONNECTIONS_H
