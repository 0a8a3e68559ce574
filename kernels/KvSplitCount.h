//===- KvSplitCount.h - Number of KV splits of attention --------*- C++ -*-===//

#ifndef MOE_KERNELS_KVSPLITCOUNT_H
#define MOE_KERNELS_KVSPLITCOUNT_H

#include <cstdint>
#include <numeric>

namespace moek {

/// Attention of a token is divided into at least this many pieces, even if the
/// machine has few cores: a run may use any number of them.
inline constexpr int64_t kMinAttentionPieces = 8;

/// The smallest number of KV splits that gives each of `cores` equally many
/// pieces of attention, where each of `groups` of heads has its own cache rows.
/// Fewer splits are better, as each adds a partial sum to combine.
inline int64_t fewestKvSplits(int64_t groups, int64_t cores) {
  int64_t even = cores / std::gcd(groups, cores);
  int64_t least = (kMinAttentionPieces + groups - 1) / groups;
  return (least + even - 1) / even * even;
}

} // namespace moek

#endif // MOE_KERNELS_KVSPLITCOUNT_H
