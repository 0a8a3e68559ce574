//===- VectorConversion.h - Conversion of floats to integers ----*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_VECTORCONVERSION_H
#define MOE_TEST_SOFTCPU_VECTORCONVERSION_H

#include "test/softcpu/VectorOperations.h"

#include <limits>

namespace moek::test {

/// Rounds as MXCSR says or, if `Truncates`, towards zero. Values out of range
/// give the indefinite integer: the least signed number or all ones.
template <class From, class To, bool Truncates> To toInteger(From value) {
  constexpr bool kSigned = std::numeric_limits<To>::is_signed;
  // One past the largest number, because the largest may not be representable.
  constexpr From kEnd = From(2) * From(To(1) << (8 * sizeof(To) - 1 - kSigned));
  constexpr From kLeast = kSigned ? -kEnd : From(0);
  constexpr int kRounding =
      Truncates ? _MM_FROUND_TO_ZERO : _MM_FROUND_CUR_DIRECTION;
  // This is exact for floats, too.
  __m128d wide = _mm_set_sd(double(value));
  double rounded = _mm_cvtsd_f64(_mm_round_sd(wide, wide, kRounding));
  if (rounded >= double(kLeast) && rounded < double(kEnd))
    return To(rounded);
  return kSigned ? std::numeric_limits<To>::min()
                 : std::numeric_limits<To>::max();
}

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTORCONVERSION_H
