//===- SpanCount.h - How many parts attention cuts a cache into -*- C++ -*-===//

#ifndef MOE_KERNELS_SPANCOUNT_H
#define MOE_KERNELS_SPANCOUNT_H

#include <cstdint>
#include <numeric>

namespace moek {

/// Shares of a token's attention even on a machine of few cores: of them a run
/// may have any number.
inline constexpr int64_t kMinShares = 8;

/// The fewest spans that give each of `cores` as many shares, where each of
/// `groups` of heads has rows of its own: a span costs a sum.
inline int64_t fewestSpans(int64_t groups, int64_t cores) {
  int64_t even = cores / std::gcd(groups, cores);
  int64_t least = (kMinShares + groups - 1) / groups;
  return (least + even - 1) / even * even;
}

} // namespace moek

#endif // MOE_KERNELS_SPANCOUNT_H
