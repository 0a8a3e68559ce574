#ifndef MOE_KERNELS_CUDA_EXPERTSLICE_CUH
#define MOE_KERNELS_CUDA_EXPERTSLICE_CUH

#include "kernels/cuda/Device.cuh"

/// Like moek::ExpertSlice::numberOf().
MOE_DEVICE int numberOf(int expert, const ExpertSlice &slice) {
  if (slice.map)
    return int(slice.map[expert]);
  int number = expert - slice.begin;
  return number < slice.count ? number : -1;
}

#endif // MOE_KERNELS_CUDA_EXPERTSLICE_CUH
