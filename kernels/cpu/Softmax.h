//===- Softmax.h - Online softmax; division of causal work ------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_SOFTMAX_H
#define MOE_KERNELS_CPU_SOFTMAX_H

#include "kernels/Scratch.h"
#include "kernels/cpu/Share.h"
#include "kernels/cpu/Simd.h"

#include <limits>

namespace moek {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Rounds `range` outwards to whole vectors.
template <class S> MOE_INLINE Range wholeVectors(Range range) {
  return {range.begin / S::kWidth * S::kWidth,
          (range.end + S::kWidth - 1) / S::kWidth * S::kWidth};
}

/// Results of softmaxBlock.
struct BlockWeights {
  float alpha; ///< Factor for sums made with the former maximum.
  float most;  ///< The largest weight.
  float sum;   ///< Sum of the weights.
};

/// Turns the next scores of a query, those of rows `seen`, into weights
/// exp(score - most) and updates the running `most` and `sum`. Other elements
/// in the same vectors, for which `scores` must have room, become zero. If
/// `cap` is not 0, it is applied to the scores first.
template <class S>
BlockWeights softmaxBlock(float *scores, Range seen, float cap, float &most,
                          float &sum) {
  using Vec = typename S::Vec;
  constexpr float kLog2E = 1.44269504f;
  const Range whole = wholeVectors<S>(seen);
  if (cap != 0)
    for (int64_t i = whole.begin; i < whole.end; i += S::kWidth)
      S::store(scores + i, softcapped<S>(S::load(scores + i), cap));
  for (int64_t i = whole.begin; i < seen.begin; ++i)
    scores[i] = kMinusInfinity;
  for (int64_t i = seen.end; i < whole.end; ++i)
    scores[i] = kMinusInfinity;
  Vec biggest = S::set(kMinusInfinity), others = biggest;
  int64_t i = whole.begin;
  for (; i + 2 * S::kWidth <= whole.end; i += 2 * S::kWidth) {
    biggest = S::max(S::load(scores + i), biggest);
    others = S::max(S::load(scores + i + S::kWidth), others);
  }
  if (i < whole.end)
    biggest = S::max(S::load(scores + i), biggest);
  const float ofBlock = float(S::reduceMax(S::max(others, biggest)));
  const bool rises = ofBlock > most;
  const float next = rises ? ofBlock : most;
  // If all scores so far are minus infinity, any finite shift gives weights of
  // zero.
  const Vec shift = S::set(next == kMinusInfinity ? 0 : next);
  auto weightOf = [&](Vec score) {
    return S::exp2(S::mul(S::sub(score, shift), S::set(kLog2E)));
  };
  Vec total = S::zero();
  for (i = whole.begin; i < whole.end; i += S::kWidth) {
    Vec p = weightOf(S::load(scores + i));
    total = S::add(total, p);
    S::store(scores + i, p);
  }
  // The new maximum is either the former one or the block's; the other is
  // lower.
  float lower;
  S::storePart(&lower, weightOf(S::set(rises ? most : ofBlock)), 1);
  BlockWeights block{rises ? lower : 1, rises ? 1 : lower,
                     float(S::reduceAdd(total))};
  most = next;
  sum = sum * block.alpha + block.sum;
  return block;
}

/// Divides a row, which may be `out` itself.
template <class S>
void divideRow(const float *row, int64_t cols, float divisor, float *out) {
  auto factor = S::div(S::set(1), S::set(divisor));
  forVectors<S>(0, cols, [&](int64_t i, auto lanes) {
    lanes.store(out + i, S::mul(lanes.load(row + i), factor));
  });
}
template <class S> void divideRow(float *row, int64_t cols, float divisor) {
  divideRow<S>(row, cols, divisor, row);
}

/// A window that is larger than any position: a query sees all positions before
/// it.
inline constexpr int64_t kNoWindow = int64_t(1) << 40;

/// Work items `groups` x [0, count) x `inner`. Item i of [0, count) costs base
/// + i + 1, because a query sees the cached rows and those up to its own, but
/// at most `window`.
struct CausalItems {
  int64_t groups, count, inner, base, window = kNoWindow;

  MOE_INLINE int64_t cost(int64_t i) const {
    return base + i + 1 < window ? base + i + 1 : window;
  }
  /// Cost of all of [0, count).
  MOE_INLINE int64_t sum() const {
    int64_t growing = window - base;
    growing = growing < 0 ? 0 : growing < count ? growing : count;
    return growing * base + growing * (growing + 1) / 2 +
           (count - growing) * window;
  }
};

/// Returns how many items end at or before `cost` of the total cost.
MOE_INLINE int64_t causalItemsBefore(const CausalItems &items, int64_t cost) {
  const int64_t perGroup = items.inner * items.sum();
  const int64_t group = cost / perGroup;
  if (group == items.groups)
    return group * items.count * items.inner;
  int64_t rest = cost % perGroup, i = 0;
  for (; rest >= items.inner * items.cost(i); ++i)
    rest -= items.inner * items.cost(i);
  return (group * items.count + i) * items.inner + rest / items.cost(i);
}

/// Returns how many items come before share `index` of `shares` shares of equal
/// cost.
MOE_INLINE int64_t causalBoundary(const CausalItems &items, int64_t index,
                                  int64_t shares) {
  const int64_t total = items.groups * items.inner * items.sum();
  // The product with `index` may exceed 64 bits, so it is computed in double.
  return causalItemsBefore(
      items, index == shares
                 ? total
                 : int64_t(double(total) * double(index) / double(shares)));
}

MOE_INLINE Range causalRange(const CausalItems &items, const Worker &worker) {
  return {causalBoundary(items, worker.index, worker.count),
          causalBoundary(items, worker.index + 1, worker.count)};
}

/// Calls body(item) for this worker's share of the items, and for items of
/// workers that are slower. An item belongs to the piece in which its cost
/// ends.
template <class Body>
MOE_INLINE void forCausalItems(const CausalItems &items, const Worker &worker,
                               Body body) {
  forShares(items.groups * items.inner * items.sum(), 1, wholeTeam(worker),
            [&](int64_t begin, int64_t end) {
              const int64_t last = causalItemsBefore(items, end);
              for (int64_t item = causalItemsBefore(items, begin); item < last;
                   ++item)
                body(item);
            });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_SOFTMAX_H
