#ifndef MOE_KERNELS_CUDA_EXPERTSLICE_CUH
#define MOE_KERNELS_CUDA_EXPERTSLICE_CUH

#include "kernels/cuda/Device.cuh"

/// Returns the number of an expert among those of this device; it is negative
/// if the expert is on another one. As moek::ExpertSlice::numberOf().
MOE_DEVICE int numberOf(int expert, const ExpertSlice &slice) {
  if (slice.map)
    return int(slice.map[expert]);
  int number = expert - slice.begin;
  return number < slice.count ? number : -1;
}

#endif // MOE_KERNELS_CUDA_EXPERTSLICE_CUH
