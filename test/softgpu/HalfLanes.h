//===- HalfLanes.h - Arrays of f16 and bf16 ---------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_HALFLANES_H
#define MOE_TEST_SOFTGPU_HALFLANES_H

#include "test/softgpu/Numbers.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace softgpu {

/// Returns the element, with subnormals flushed to zero.
template <bool IsBfloat> inline uint16_t flushHalf(uint16_t value) {
  return value & (IsBfloat ? 0x7F80 : 0x7C00) ? value
                                              : uint16_t(value & 0x8000);
}

template <bool IsBfloat, int N>
inline void widen(const uint16_t *from, float *to, bool ftz) {
  uint16_t flushed[N];
  if (ftz) {
    for (int i = 0; i < N; ++i)
      flushed[i] = flushHalf<IsBfloat>(from[i]);
    from = flushed;
  }
  for (int i = 0; i < N; ++i)
    to[i] = IsBfloat ? floatOfBfloat(from[i]) : floatOfHalf(from[i]);
}

/// Rounds to nearest even; NaN becomes 0x7FFF.
template <bool IsBfloat, int N>
inline void narrow(const float *from, uint16_t *to) {
  if constexpr (IsBfloat) {
    for (int i = 0; i < N; ++i)
      to[i] = bfloatOfFloat(from[i]);
    return;
  }
#ifdef __F16C__
  for (int i = 0; i < N; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i *>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (int i = 0; i < N; ++i)
    to[i] = (to[i] & 0x7FFF) > 0x7C00 ? 0x7FFF : to[i];
#else
  for (int i = 0; i < N; ++i)
    to[i] = halfOfFloat(from[i]);
#endif
}

/// Applies .ftz, .sat and .relu to a result.
template <bool IsBfloat>
inline void finishHalf(uint16_t *values, int count, bool ftz, bool sat,
                       bool relu) {
  constexpr uint16_t kOne = IsBfloat ? 0x3F80 : 0x3C00,
                     kInf = IsBfloat ? 0x7F80 : 0x7C00;
  for (int i = 0; i < count; ++i) {
    uint16_t value = ftz ? flushHalf<IsBfloat>(values[i]) : values[i];
    bool isNan = (value & 0x7FFF) > kInf, isNegative = value & 0x8000;
    if (relu && isNegative && !isNan)
      value = 0;
    if (sat)
      value = isNan || isNegative ? 0 : value > kOne ? kOne : value;
    values[i] = value;
  }
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_HALFLANES_H
