//===- Formats.cuh - Numbers and sizes of weight formats --------*- C++ -*-===//
//
// MOE_FORMAT is the number (kernels/quant/Formats.def) of the format that a
// kernel is compiled for.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FORMATS_CUH
#define MOE_KERNELS_CUDA_FORMATS_CUH

#include "kernels/cuda/Device.cuh"

#define MOE_F32 0
#define MOE_F16 1
#define MOE_Q4_0 2
#define MOE_Q4_1 3
#define MOE_Q5_0 6
#define MOE_Q5_1 7
#define MOE_Q8_0 8
#define MOE_Q2_K 10
#define MOE_Q3_K 11
#define MOE_Q4_K 12
#define MOE_Q5_K 13
#define MOE_Q6_K 14
#define MOE_IQ4_NL 20
#define MOE_IQ4_XS 23
#define MOE_BF16 30

// MOE_BLOCK_ELEMENTS and MOE_BLOCK_BYTES are the format's in Formats.def.
constexpr int kBlockElements = MOE_BLOCK_ELEMENTS;
constexpr int kBlockBytes = MOE_BLOCK_BYTES;

/// kernels/quant/IQ4_NL.h
static __constant__ i8 kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

#endif // MOE_KERNELS_CUDA_FORMATS_CUH
