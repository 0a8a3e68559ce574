//===- Groups.cuh - Groups of rows in prefill -------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_GROUPS_CUH
#define MOE_KERNELS_CUDA_GROUPS_CUH

#include "kernels/cuda/Jobs.cuh"

#if MOE_JOBS == MOE_EXPERTS
/// Finds the block's group of MOE_ROWS slots. Groups are numbered across all
/// experts, and each expert's slots begin a new group. Every warp computes it
/// for itself.
MOE_DEVICE Job findGroup(const GemmArgs &a) {
  int lane = threadIdx.x % 32, wanted = blockIdx.y, before = 0;
  for (int first = 0; first < a.experts; first += 32) {
    int e = first + lane, groups = 0, begin = 0, count = 0;
    if (e < a.experts) {
      begin = a.offsets[e];
      count = a.offsets[e + 1] - begin;
      groups = (count + MOE_ROWS - 1) / MOE_ROWS;
    }
    int sum = groups; // The loop makes it the sum up to this lane's expert.
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      int other = __shfl_up_sync(kAllLanes, sum, i);
      sum += lane >= i ? other : 0;
    }
    int own = before + sum - groups;
    u32 found =
        __ballot_sync(kAllLanes, own <= wanted && wanted < own + groups);
    if (found) {
      int from = __ffs(int(found)) - 1;
      int skip = (wanted - __shfl_sync(kAllLanes, own, from)) * MOE_ROWS;
      begin = __shfl_sync(kAllLanes, begin, from) + skip;
      count = __shfl_sync(kAllLanes, count, from) - skip;
      return {first + from, begin, min(count, MOE_ROWS)};
    }
    before += __shfl_sync(kAllLanes, sum, 31);
  }
  return {0, 0, 0};
}
#else
MOE_DEVICE Job findGroup(const GemmArgs &a) { return findJob(a, blockIdx); }
#endif

#endif // MOE_KERNELS_CUDA_GROUPS_CUH
