//===- Formats.cuh - Numbers, sizes and tables of formats -------*- C++ -*-===//
//
// MOE_FORMAT is the number (kernels/quant/Formats.def) of the weight format
// that a kernel is compiled for.
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
#define MOE_IQ2_XXS 16
#define MOE_IQ2_XS 17
#define MOE_IQ3_XXS 18
#define MOE_IQ1_S 19
#define MOE_IQ4_NL 20
#define MOE_IQ3_S 21
#define MOE_IQ2_S 22
#define MOE_IQ4_XS 23
#define MOE_IQ1_M 29
#define MOE_BF16 30
#define MOE_MXFP4 39
#define MOE_NVFP4 40

// MOE_BLOCK_ELEMENTS and MOE_BLOCK_BYTES are the format's values in
// Formats.def.
constexpr int kBlockElements = MOE_BLOCK_ELEMENTS;
constexpr int kBlockBytes = MOE_BLOCK_BYTES;

// MOE_VALUES is kValues of kernels/quant/<format>.h. MOE_DIGITS is the format's
// grid in kernels/quant/Grids.def.
#if MOE_FORMAT == MOE_IQ4_NL || MOE_FORMAT == MOE_IQ4_XS
#define MOE_VALUES                                                             \
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#elif MOE_FORMAT == MOE_MXFP4 || MOE_FORMAT == MOE_NVFP4
#define MOE_VALUES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
#elif MOE_FORMAT == MOE_IQ3_XXS
#define MOE_VALUES                                                             \
  4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62
#define MOE_DIGITS kDigitsIQ3_XXS
#elif MOE_FORMAT == MOE_IQ3_S
#define MOE_VALUES 1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15
#define MOE_DIGITS kDigitsIQ3_S
#elif MOE_FORMAT == MOE_IQ2_XXS || MOE_FORMAT == MOE_IQ2_XS ||                 \
    MOE_FORMAT == MOE_IQ2_S
#define MOE_VALUES 8, 25, 43, 0, -8, -25, -43, 0
#if MOE_FORMAT == MOE_IQ2_XXS
#define MOE_DIGITS kDigitsIQ2_XXS
#elif MOE_FORMAT == MOE_IQ2_XS
#define MOE_DIGITS kDigitsIQ2_XS
#else
#define MOE_DIGITS kDigitsIQ2_S
#endif
#elif MOE_FORMAT == MOE_IQ1_S || MOE_FORMAT == MOE_IQ1_M
#define MOE_DIGITS kDigitsIQ1
#endif

/// The factor of d: kUnit of kernels/quant/<format>.h.
#if MOE_FORMAT == MOE_IQ3_XXS
constexpr float kUnit = 0.25f;
#elif defined(MOE_DIGITS) && MOE_FORMAT != MOE_IQ3_S
constexpr float kUnit = 0.125f;
#else
constexpr float kUnit = 1;
#endif

/// 2^(exponent - 128), see kernels/quant/Half.h.
MOE_DEVICE float exponentToFloat(u32 exponent) {
  return __int_as_float(
      int(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23));
}

/// Half of an E4M3 number without a sign, see kernels/quant/NVFP4.h.
MOE_DEVICE float e4m3ToFloat(u32 x) {
  u32 exponent = x >> 3 & 15, mantissa = x & 7;
  if (x == 0x7f)
    return 0;
  if (exponent == 0)
    return __fmul_rn(float(mantissa), 0.0009765625f);
  return __int_as_float(int((exponent + 119) << 23 | mantissa << 20));
}

/// Weights are read once, so they bypass L1.
MOE_DEVICE uint4 loadOnce(const u8 *p) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(p));
  return x;
}

#endif // MOE_KERNELS_CUDA_FORMATS_CUH
