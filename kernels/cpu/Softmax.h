//===- Softmax.h - Online softmax and shares of causal attention -*- C++ -*-==//

#ifndef MOE_KERNELS_CPU_SOFTMAX_H
#define MOE_KERNELS_CPU_SOFTMAX_H

#include "kernels/Scratch.h"
#include "kernels/cpu/Simd.h"

#include <limits>

namespace moek {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Turns the next `n` scores of a query into weights exp(score - most), with
/// the running `most` and `sum` kept up to date. The result is what sums made
/// with the former maximum must be multiplied by. `scores` has room for whole
/// vectors.
template <class S>
float softmaxBlock(float *scores, int64_t n, float &most, float &sum) {
  using Vec = typename S::Vec;
  int64_t whole = (n + S::kWidth - 1) / S::kWidth * S::kWidth;
  for (int64_t i = n; i < whole; ++i)
    scores[i] = kMinusInfinity;
  Vec biggest = S::set(most);
  for (int64_t i = 0; i < whole; i += S::kWidth)
    biggest = S::max(S::load(scores + i), biggest);
  float next = float(S::reduceMax(biggest));
  // All scores so far minus infinity: any finite shift leaves weights of zero.
  Vec shift = S::set(next == kMinusInfinity ? 0 : next);
  Vec total = S::zero();
  for (int64_t i = 0; i < whole; i += S::kWidth) {
    Vec p = S::exp(S::sub(S::load(scores + i), shift));
    total = S::add(total, p);
    S::store(scores + i, p);
  }
  float alpha;
  S::storePart(&alpha, S::exp(S::sub(S::set(most), shift)), 1);
  most = next;
  sum = float(sum * alpha + S::reduceAdd(total));
  return alpha;
}

template <class S> void divideRow(float *row, int64_t cols, float divisor) {
  auto factor = S::div(S::set(1), S::set(divisor));
  forVectors<S>(0, cols, [&](int64_t i, auto lanes) {
    lanes.store(row + i, S::mul(lanes.load(row + i), factor));
  });
}

/// Items i of `groups` x [0, count) x `inner`, each costing base + i + 1 (a
/// query sees the cached rows and those up to its own): the number of items
/// before share `index` of `shares` equally dear ones.
MOE_INLINE int64_t causalBoundary(int64_t groups, int64_t count, int64_t inner,
                                  int64_t base, int64_t index, int64_t shares) {
  if (index == shares)
    return groups * count * inner;
  int64_t perGroup = inner * (count * base + count * (count + 1) / 2);
  // In double: the product with `index` may exceed 64 bits.
  auto target =
      int64_t(double(groups * perGroup) * double(index) / double(shares));
  int64_t group = target / perGroup, rest = target % perGroup, i = 0;
  while (rest >= inner * (base + i + 1)) {
    rest -= inner * (base + i + 1);
    ++i;
  }
  return (group * count + i) * inner + rest / (base + i + 1);
}

MOE_INLINE Range causalShare(int64_t groups, int64_t count, int64_t inner,
                             int64_t base, const Worker &worker) {
  return {
      causalBoundary(groups, count, inner, base, worker.index, worker.count),
      causalBoundary(groups, count, inner, base, worker.index + 1,
                     worker.count)};
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SOFTMAX_H
