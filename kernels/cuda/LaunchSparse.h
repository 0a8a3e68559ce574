//===- LaunchSparse.h - Launches of sparse attention ------------*- C++ -*-===//
//
// And of what else models that have it need (kernels/SparseArgs.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_LAUNCHSPARSE_H
#define MOE_KERNELS_CUDA_LAUNCHSPARSE_H

#include "kernels/SparseArgs.h"
#include "kernels/cuda/Launch.h"

namespace moek::cuda {

std::vector<Launch> launches(const moek::LayerNormArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::RowStoreArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::IndexScoresArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::IndexSelectArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::SparseAttentionArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::CompressArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::EntryStoreArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::HyperWeightsArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::HyperCollapseArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::HyperSpreadArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::ClampedMulArgs &a,
                             const LaunchContext &context);

/// Memory for spans of what tokens attend to.
int64_t spanBytes(const moek::SparseAttentionArgs &a,
                  const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHSPARSE_H
