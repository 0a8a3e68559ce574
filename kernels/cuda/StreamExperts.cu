// StreamExperts: the first part of experts' matrices, before anything
// multiplies.

#include "kernels/cuda/Bring.cuh"

MOE_KERNEL(256, 4, StreamExpertsArgs) {
  if (a.step->tokens > 0)
    bring(a.part, blockIdx.x, gridDim.x);
}
