// ExpertGroup: sorts slots by expert, then by token, for the experts of this
// device. One block does it: each warp counts its contiguous range of slots by
// expert, sums over warps and experts give the place where each warp's slots
// begin, and a second pass writes them there. The order does not depend on
// which warp is first; nothing is atomic.

#include "kernels/cuda/ExpertSlice.cuh"

extern __shared__ int counts[]; // [warps][experts]

/// For at most 32 slots, without barriers and shared memory: lane i of every
/// warp has slot i. The first warp finds the place of each slot by counting
/// those of smaller experts, and of the same one with a smaller number; each
/// thread finds offsets[e] of its e by counting the slots of experts below e.
MOE_DEVICE void groupFew(const ExpertGroupArgs &a, int slots, u32 thread,
                         u32 threads) {
  int lane = thread % 32;
  int number = lane < slots ? numberOf(a.ids[lane], a.slice) : -1;
  // Slots of experts that are not here sort last.
  u32 own = number >= 0 ? u32(number) : ~0u;
  int place = 0;
  for (int i = 0; i < slots; ++i) {
    u32 other = __shfl_sync(kAllLanes, own, i);
    place += other < own || (other == own && i < lane);
  }
  if (thread < 32 && own != ~0u)
    a.slots[place] = lane;
  for (int first = 0; first <= a.slice.count; first += threads) {
    u32 e = first + thread;
    int before = 0;
    for (int i = 0; i < slots; ++i)
      before += __shfl_sync(kAllLanes, own, i) < e;
    if (e <= u32(a.slice.count))
      a.offsets[e] = before;
  }
}

MOE_KERNEL(1024, 1, ExpertGroupArgs) {
  __shared__ int warpTotals[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int slots = a.step->tokens * a.topK, experts = a.slice.count;
  if (slots <= 32) {
    groupFew(a, slots, threadIdx.x, blockDim.x);
    return;
  }
  int each = (slots + warps * 32 - 1) / (warps * 32) * 32;
  int begin = min(warp * each, slots), end = min(begin + each, slots);
  int *own = counts + warp * experts;
  for (int e = lane; e < experts; e += 32)
    own[e] = 0;
  __syncwarp();
  for (int i = begin; i < end; i += 32) {
    int expert = i + lane < end ? numberOf(a.ids[i + lane], a.slice) : -1;
    u32 same = __match_any_sync(kAllLanes, expert);
    if (expert >= 0 && lane == __ffs(int(same)) - 1)
      own[expert] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  // First count, per expert, the slots in the warps before; then, over experts,
  // the slots of the experts before, for as many experts at a time as there are
  // threads.
  int before = 0;
  for (int first = 0; first < experts; first += blockDim.x) {
    int e = first + threadIdx.x, total = 0;
    if (e < experts)
      for (int w = 0; w < warps; ++w) {
        int count = counts[w * experts + e];
        counts[w * experts + e] = total;
        total += count;
      }
    int sum = total; // The loop makes it the sum over lanes up to this one.
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      int other = __shfl_up_sync(kAllLanes, sum, i);
      sum += lane >= i ? other : 0;
    }
    if (lane == 31)
      warpTotals[warp] = sum;
    __syncthreads();
    int offset = before + sum - total;
    for (int w = 0; w < warps; ++w) {
      offset += w < warp ? warpTotals[w] : 0;
      before += warpTotals[w];
    }
    if (e < experts) {
      a.offsets[e] = offset;
      for (int w = 0; w < warps; ++w)
        counts[w * experts + e] += offset;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0)
    a.offsets[experts] = before;
  for (int i = begin; i < end; i += 32) {
    int expert = i + lane < end ? numberOf(a.ids[i + lane], a.slice) : -1;
    u32 same = __match_any_sync(kAllLanes, expert);
    int rank = __popc(same & ((1u << lane) - 1));
    int place = expert >= 0 ? own[expert] + rank : 0;
    if (expert >= 0)
      a.slots[place] = i + lane;
    __syncwarp();
    if (expert >= 0 && rank == 0)
      own[expert] += __popc(same);
    __syncwarp();
  }
}
