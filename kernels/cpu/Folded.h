//===- Folded.h - Parts that the x86 traits share ---------------*- C++ -*-===//
//
// Sums over the lanes of any vector: the trait's fold() adds up the vector's
// parts to four partial sums, and this adds up those four.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_FOLDED_H
#define MOE_KERNELS_CPU_FOLDED_H

#include "kernels/cpu/Inline.h"

#include <immintrin.h>

namespace moek {

template <class S> struct Folded {
  /// Adds the partial sums as (0 + 1) + (2 + 3).
  template <class Vec> MOE_INLINE static float reduceAdd(Vec v) {
    __m128 s = S::fold(v);
    s = _mm_hadd_ps(s, s);
    return _mm_cvtss_f32(_mm_hadd_ps(s, s));
  }
  template <class Vec>
  MOE_INLINE static void reduceAdd4(const Vec (&v)[4], float scale,
                                    float *out) {
    __m128 s = _mm_hadd_ps(_mm_hadd_ps(S::fold(v[0]), S::fold(v[1])),
                           _mm_hadd_ps(S::fold(v[2]), S::fold(v[3])));
    _mm_storeu_ps(out, _mm_mul_ps(s, _mm_set1_ps(scale)));
  }
  /// Row r of `v` gives four sums at out + r * stride.
  template <class Vec, int R>
  MOE_INLINE static void reduceAdd4(const Vec (&v)[R][4], float scale,
                                    float *out, int64_t stride) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      S::reduceAdd4(v[r], scale, out + r * stride);
  }
  /// Writes scale times four rows of four floats as columns.
  MOE_INLINE static void transpose4(const float *from, int64_t stride,
                                    float scale, float *to, int64_t toStride) {
    const __m128 factor = _mm_set1_ps(scale);
    __m128 rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      rows[i] = _mm_mul_ps(_mm_loadu_ps(from + i * stride), factor);
    _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      _mm_storeu_ps(to + i * toStride, rows[i]);
  }
  /// Adds them as (0 + 2) + (1 + 3), which takes fewer instructions.
  template <class Vec> MOE_INLINE static float sumOfLanes(Vec v) {
    __m128 s = S::fold(v);
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
};

} // namespace moek

#endif // MOE_KERNELS_CPU_FOLDED_H
