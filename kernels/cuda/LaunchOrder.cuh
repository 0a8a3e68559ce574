//===- LaunchOrder.cuh - A launch after the one before ----------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHORDER_CUH
#define MOE_KERNELS_CUDA_LAUNCHORDER_CUH

/// The first thing that every block does. From sm_90 on the runtime lets a
/// launch begin while the one before ends (programmatic dependent launch), which
/// hides the time to bring its blocks to multiprocessors: they wait here until
/// all of that launch has ended and its writes are visible. They in turn let the
/// next launch come as soon as they have all begun. Without that, both are
/// nothing.
static __device__ __forceinline__ void awaitLaunchBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif // MOE_KERNELS_CUDA_LAUNCHORDER_CUH
