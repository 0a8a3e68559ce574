//===- KvHalf.cuh - 16-bit products with rows of a cache --------*- C++ -*-===//
//
// The 16-bit type of HalfMma.cuh is that of the cache (MOE_KV); for a Q8_0
// cache it is BF16, in which codes are exact.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_KVHALF_CUH
#define MOE_KERNELS_CUDA_KVHALF_CUH

#include "kernels/cuda/KvCache.cuh"

#if MOE_KV == MOE_KV_F16
#define MOE_HALF_IS_F16
#define MOE_HALF "f16"
/// F16 overflows at 65504, so queries are scaled by a power of two
/// (exponentFor()). Weights, which are at most 1, are multiplied by 2^14, so
/// that small ones keep their bits.
constexpr int kWeightExponent = 14;
/// Bits of an infinity, in both halves of a word.
constexpr u32 kInfinities = 0x7c007c00;
#else
#define MOE_HALF "bf16"
constexpr int kWeightExponent = 0;
constexpr u32 kInfinities = 0x7f807f80;
#endif
constexpr float kWeightScale = float(1 << kWeightExponent);

#include "kernels/cuda/HalfMma.cuh"

/// Returns the exponent e for which `most` * 2^-e is below 2^14; always 0 for
/// BF16, which has the range of floats.
MOE_DEVICE int exponentFor(float most) {
#if MOE_KV == MOE_KV_F16
  int exponent = int(u32(__float_as_int(most)) >> 23) - 127 - 13;
  return exponent > -100 ? exponent : -100;
#else
  return 0;
#endif
}
MOE_DEVICE float powerOfTwo(int exponent) {
  return __int_as_float((exponent + 127) << 23);
}

#endif // MOE_KERNELS_CUDA_KVHALF_CUH
