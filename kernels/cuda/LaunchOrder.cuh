//===- LaunchOrder.cuh - A launch after the one before ----------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHORDER_CUH
#define MOE_KERNELS_CUDA_LAUNCHORDER_CUH

/// The first thing that every block does. From sm_90 on the runtime lets a
/// launch begin while the one before it ends (programmatic dependent launch),
/// which hides the time to bring its blocks to multiprocessors. `wait` blocks
/// until all of the launch before has ended and its writes are visible;
/// `launch_dependents` lets the launch after this one begin as soon as all
/// blocks of this one have executed it. In a launch without that attribute both
/// do nothing.
static __device__ __forceinline__ void awaitLaunchBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif // MOE_KERNELS_CUDA_LAUNCHORDER_CUH
