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
#define MOE_MXFP4 39

// MOE_BLOCK_ELEMENTS and MOE_BLOCK_BYTES are the format's in Formats.def.
constexpr int kBlockElements = MOE_BLOCK_ELEMENTS;
constexpr int kBlockBytes = MOE_BLOCK_BYTES;

/// kernels/quant/IQ4_NL.h
static __constant__ i8 kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// kernels/quant/MXFP4.h
static __constant__ i8 kFp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                         0, -1, -2, -3, -4, -6, -8, -12};

/// 2^(exponent - 128), kernels/quant/Half.h.
MOE_DEVICE float exponentToFloat(u32 exponent) {
  return __int_as_float(
      int(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23));
}

#endif // MOE_KERNELS_CUDA_FORMATS_CUH
