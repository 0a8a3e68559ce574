// StreamExperts: copies the first part of the experts' matrices to the GPU,
// before the first launch that multiplies.

#include "kernels/cuda/Bring.cuh"

MOE_KERNEL(256, 4, StreamExpertsArgs) {
  if (a.step->tokens > 0)
    bring(a.part, blockIdx.x, gridDim.x);
}
