//===- Launches.h - Functions of the Launch*.cpp ----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHES_H
#define MOE_KERNELS_CUDA_LAUNCHES_H

#include "kernels/cuda/Launch.h"

namespace moek::cuda {

// Declares launches(args, context) for every instruction except matrix
// products, which are in LaunchGemm.h; launchesOf() calls them.
#define MOE_OP(op, name, number, kind)                                         \
  std::vector<Launch> launches(const moek::op##Args &a,                        \
                               const LaunchContext &context);
#include "kernels/Ops.def"

// Bytes of workspace that the launches of an instruction need.

/// Returns the bytes of keys and mixes of chunks, for launches of DeltaRule
/// that process rows in chunks.
int64_t chunkBytes(const moek::DeltaRuleArgs &a, const LaunchContext &context);
/// Returns the bytes of partial sums, for attention of a prompt in parts.
int64_t partBytes(const moek::AttentionArgs &a, const LaunchContext &context);
/// Returns the bytes of keys and values of the heads that MlaAttention takes at
/// a time.
int64_t headRowsBytes(const moek::MlaAttentionArgs &a,
                      const LaunchContext &context);
/// Returns the bytes of partial sums, for sparse attention with KV splits.
int64_t spanBytes(const moek::SparseAttentionArgs &a,
                  const LaunchContext &context);
int64_t spanBytes(const moek::BlockAttentionArgs &a,
                  const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHES_H
