//===- Launch.h - Kernels as work -------------------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_CUDA_LAUNCH_H
#define MOE_TEST_SOFTGPU_CUDA_LAUNCH_H

#include "test/softgpu/cuda/State.h"

namespace softcuda {

/// Of a module that is loaded; null for any other handle.
Function *functionOf(void *handle);

/// A launch with the parameters as they are now. Without `run`: its shape or
/// parameters are wrong.
Work kernelWork(Function &function, const softgpu::LaunchShape &shape,
                void *const *parameters);

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_LAUNCH_H
