//===- Launch.h - Kernel launches as work of a stream -----------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_CUDA_LAUNCH_H
#define MOE_TEST_SOFTGPU_CUDA_LAUNCH_H

#include "test/softgpu/cuda/State.h"

namespace softcuda {

/// Returns the function of a loaded module; null for any other handle.
Function *functionOf(void *handle);

/// Returns a launch with the current values of the parameters. It has no `run`
/// if its shape or parameters are wrong.
Work kernelWork(Function &function, const softgpu::LaunchShape &shape,
                void *const *parameters);

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_LAUNCH_H
