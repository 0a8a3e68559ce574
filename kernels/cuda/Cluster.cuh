//===- Cluster.cuh - Clusters of blocks that share copies -------*- C++ -*-===//
//
// sm_90 on. The blocks of a cluster (MOE_CLUSTER of them along x) run at the
// same time. A thread of one block copies a piece of global memory to the same
// place in the shared memory of all of them: L2 is read once. Bytes are counted
// at the barrier in shared memory that a block has for the stage:
//
//   initBarrier(full);                     // One thread, once.
//   arriveAtCluster(); waitForCluster();   // Then others may copy to it.
//   expectBytes(full, bytes);              // One thread of each block: all
//                                          // bytes that come to its stage.
//   copyToCluster(to, from, bytes, full);  // The blocks' pieces.
//   awaitBytes(full, parity);              // Who reads; parity is 0 for the
//                                          // first use of the barrier, then 1,
//                                          // then 0.
//
// Before a stage is filled again, every warp of every block calls
// arriveAtCluster(), once it no longer reads the stage; waitForCluster() waits
// until all have. A warp calls the two in turns. A block must not end before it
// has waited for everything that is copied to it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_CLUSTER_CUH
#define MOE_KERNELS_CUDA_CLUSTER_CUH

#include "kernels/cuda/Device.cuh"

/// Prepares the barrier at a shared address for the arrival of one thread in
/// each phase.
MOE_DEVICE void initBarrier(u32 barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(barrier), "r"(1)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
MOE_DEVICE void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
MOE_DEVICE void waitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Arrives at the barrier, whose phase then lacks only bytes.
MOE_DEVICE void expectBytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
}
/// Begins a copy to the shared address `to` of all blocks of the cluster, which
/// counts at the barrier that each has at `barrier`. Addresses and bytes are
/// multiples of sixteen.
MOE_DEVICE void copyToCluster(u32 to, const void *from, u32 bytes,
                              u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
               :
               : "r"(to), "l"(from), "r"(bytes), "r"(barrier),
                 "h"(u16((1 << MOE_CLUSTER) - 1))
               : "memory");
}
/// Waits for the end of the barrier's phase of this parity.
MOE_DEVICE void awaitBytes(u32 barrier, u32 parity) {
  u32 isThere;
  do {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(isThere)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (!isThere);
}

#endif // MOE_KERNELS_CUDA_CLUSTER_CUH
