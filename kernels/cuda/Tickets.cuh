//===- Tickets.cuh - Which block of a launch comes last ---------*- C++ -*-===//
//
// Blocks that share work count themselves at counters in device memory
// (Step::tickets), and the one that comes last goes on with what all of them
// wrote: no block waits for another. Every launch finds the counters 0, and
// leaves them 0. All threads of a block call these functions together.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_TICKETS_CUH
#define MOE_KERNELS_CUDA_TICKETS_CUH

#include "kernels/cuda/Abi.h"

/// Has one thread of the block call `draw`, an atomic operation with acquire
/// semantics, and returns its result to all threads. What any thread of the
/// block wrote before is visible to other blocks that see the operation, and
/// what those wrote before theirs is visible to all threads afterwards.
template <class Draw>
static __device__ __forceinline__ unsigned drawTicket(Draw draw) {
  __shared__ unsigned drawn;
  __syncthreads();
  if (threadIdx.x == 0) {
    // A block's barrier and a fence order what all its threads did; what they
    // read afterwards comes after the atomic operation.
    __threadfence();
    drawn = draw();
  }
  __syncthreads(); // The next call's first one comes before `drawn` changes.
  return drawn;
}

/// Counts this block at `ticket`, and returns whether it is the last of `count`
/// blocks that do so. The last one sees what all of them wrote before, and sets
/// the counter to 0 for the next launch.
static __device__ __forceinline__ bool isLast(unsigned *ticket,
                                              unsigned count) {
  if (count == 1) {
    __syncthreads();
    return true;
  }
  return drawTicket([&] {
           unsigned before;
           asm volatile("atom.acquire.gpu.global.inc.u32 %0, [%1], %2;"
                        : "=r"(before)
                        : "l"(ticket), "r"(count - 1)
                        : "memory");
           return before;
         }) == count - 1;
}

#endif // MOE_KERNELS_CUDA_TICKETS_CUH
