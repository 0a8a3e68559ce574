//===- Tickets.cuh - Which block of a launch ends last ----------*- C++ -*-===//
//
// Blocks that share work count themselves at counters in device memory
// (Step::tickets), and the one that ends last goes on with what all of them
// wrote: no block waits for another. Every launch finds the counters 0, and
// leaves them 0. All threads of a block call these functions together.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_TICKETS_CUH
#define MOE_KERNELS_CUDA_TICKETS_CUH

#include "kernels/cuda/Abi.h"

/// Has one thread of the block call `draw`, an access with acquire semantics to
/// a counter, and returns its result to all threads. What any thread of the
/// block wrote before is visible to other blocks that see an atomic operation
/// of `draw`, and what those wrote before theirs is visible to all threads
/// afterwards. `word` is shared memory that nothing else uses until the block's
/// next barrier.
template <class Draw>
static __device__ __forceinline__ unsigned drawTicket(unsigned &word,
                                                      Draw draw) {
  __syncthreads();
  if (threadIdx.x == 0) {
    // A block's barrier and a fence order what all its threads did; what they
    // read afterwards comes after the atomic operation.
    __threadfence();
    word = draw();
  }
  __syncthreads(); // All threads read `word` before the next call changes it.
  return word;
}

/// Reads a counter, with acquire semantics.
static __device__ __forceinline__ unsigned readTicket(const unsigned *ticket) {
  unsigned now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(now)
               : "l"(ticket)
               : "memory");
  return now;
}

/// Counts this block at `ticket`, and returns whether it is the last of `count`
/// blocks that do so. The last one sees what all of them wrote before, and sets
/// the counter to 0 for the next launch.
static __device__ __forceinline__ bool
isLast(unsigned *ticket, unsigned count, unsigned &word) {
  if (count == 1) {
    __syncthreads();
    return true;
  }
  return drawTicket(word, [&] {
           unsigned before;
           asm volatile("atom.acquire.gpu.global.inc.u32 %0, [%1], %2;"
                        : "=r"(before)
                        : "l"(ticket), "r"(count - 1)
                        : "memory");
           return before;
         }) == count - 1;
}

/// Returns whether all others of `count` blocks have called isLast(). Then this
/// block sees what they wrote, is the last one, and has set the counter to 0.
/// If not, it has to call isLast() too.
static __device__ __forceinline__ bool
isOnlyOneLeft(unsigned *ticket, unsigned count, unsigned &word) {
  return drawTicket(word, [&] {
           unsigned before = readTicket(ticket);
           if (before == count - 1)
             asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(ticket)
                          : "memory");
           return before;
         }) == count - 1;
}

#endif // MOE_KERNELS_CUDA_TICKETS_CUH
