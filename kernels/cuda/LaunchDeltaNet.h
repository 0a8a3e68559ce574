//===- LaunchDeltaNet.h - Launches of gated delta nets ----------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHDELTANET_H
#define MOE_KERNELS_CUDA_LAUNCHDELTANET_H

#include "kernels/cuda/Launch.h"

namespace moek::cuda {

std::vector<Launch> launches(const moek::RegroupArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::ShortConvArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::DeltaGatesArgs &a,
                             const LaunchContext &context);
std::vector<Launch> launches(const moek::DeltaRuleArgs &a,
                             const LaunchContext &context);

/// Of the workspace, that chunks of rows need.
int64_t chunkBytes(const moek::DeltaRuleArgs &a, const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHDELTANET_H
