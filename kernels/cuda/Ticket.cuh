//===- Ticket.cuh - Which of several blocks ends last -----------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_TICKET_CUH
#define MOE_KERNELS_CUDA_TICKET_CUH

#include "kernels/cuda/Abi.h"

/// Counts this block at `ticket`, a counter of Step, and returns to all of its
/// threads whether it is the last of `count` blocks that do so. The last one
/// sees what all of them wrote before. All threads of a block must call it.
/// `before` is shared memory that nothing else uses until the block's next
/// barrier.
static __device__ __forceinline__ bool endsLast(moek::cuda::u32 *ticket,
                                                moek::cuda::u32 count,
                                                moek::cuda::u32 &before) {
  __syncthreads();
  if (count == 1)
    return true;
  if (threadIdx.x == 0) {
    // A block's barrier and a fence order what all its threads did; what they
    // read afterwards comes after the atomic operation.
    __threadfence();
    // The last one sets it to 0 for the next launch.
    asm volatile("atom.acquire.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(count - 1)
                 : "memory");
  }
  __syncthreads(); // The next call's first one comes before `before` changes.
  return before == count - 1;
}

/// Returns to all threads of a block whether all others of `count` blocks have
/// called endsLast(), so that this one sees what they wrote, and is the last
/// one. If not, it has to call endsLast() too.
static __device__ __forceinline__ bool isLastOne(moek::cuda::u32 *ticket,
                                                 moek::cuda::u32 count,
                                                 moek::cuda::u32 &before) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(before)
                 : "l"(ticket)
                 : "memory");
    if (before == count - 1)
      asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(ticket)
                   : "memory");
  }
  __syncthreads();
  return before == count - 1;
}

#endif // MOE_KERNELS_CUDA_TICKET_CUH
