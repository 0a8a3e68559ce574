//===- CudaPrefetch.h - Weights that launches bring into L2 -----*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAPREFETCH_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAPREFETCH_H

#include "runtime/device/cuda/CudaLaunches.h"

namespace moert {

/// Has launches of `part` that end with a single block bring weights of later
/// launches into the L2 of `gpu`, because memory would be idle meanwhile. What
/// a launch brings is at most what memory delivers in the few microseconds of
/// such a block or, where the GPU waits for another device after the launch, as
/// much as L2 keeps. Weights come in the order in which they are read, each
/// byte once, and only if L2 keeps them until then beside other weights that
/// are read in between.
void prefetchWeights(CudaPart &part, const CudaGpu &gpu);

/// Returns, for each launch of `part`, whether it is the last one that can
/// bring weights before the GPU waits for another device.
std::vector<bool> lastBeforeWaits(const CudaPart &part);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAPREFETCH_H
