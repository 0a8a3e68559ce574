//===- Softplus.cuh - ln(1 + e^x) in double ---------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_SOFTPLUS_CUH
#define MOE_KERNELS_CUDA_SOFTPLUS_CUH

#include "kernels/cuda/Device.cuh"

/// ln(1 + x) for x from 0 to 1, as 2 artanh(x / (2 + x)): each term is at most
/// a ninth of the one before. The library's function needs more registers and a
/// table.
MOE_DEVICE double log1pOf(double x) {
  double t = x / (2 + x), sum = 0;
#pragma unroll
  for (int n = 33; n > 0; n -= 2)
    sum = sum * (t * t) + 1.0 / n;
  return 2 * t * sum;
}

MOE_DEVICE double softplus(double x) {
  return (x > 0 ? x : 0) + log1pOf(exp(x > 0 ? -x : x));
}

#endif // MOE_KERNELS_CUDA_SOFTPLUS_CUH
