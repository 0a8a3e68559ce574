//===- Rows16Traits.h - What an interleaved tile consists of ----*- C++ -*-===//
//
// Of kernels/quant/Rows16.h, what kernels of every vector width need:
//
//   w[r][c] = scale[r] * (code[r][c] - kZero) + kOffsetSign * offset[r]
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ROWS16TRAITS_H
#define MOE_KERNELS_CPU_ROWS16TRAITS_H

#include "kernels/quant/Rows16.h"

namespace moek {
namespace {

/// Of a format. kSub columns share a scale, kOffsetSub an offset (0: there is
/// none); kScales and kOffsets count them per tile.
template <Format F> struct Rows16Traits {
  static constexpr Rows16Shape kShape = rows16Shape(F);
  static constexpr int kBits = kShape.codeBits;
  static constexpr int kCols = int(formatInfo(F).blockElements);
  static constexpr int kBytes = 16 * int(formatInfo(F).blockBytes);
  static constexpr bool kIq4 = F == Format::IQ4_NL || F == Format::IQ4_XS;
  static constexpr bool kHasMinima = F == Format::Q4_K || F == Format::Q5_K;
  static constexpr int kSub =
      F == Format::Q6_K || F == Format::Q3_K || F == Format::Q2_K ? 16 : 32;
  static constexpr int kZero = kIq4 || F == Format::Q8_0 ? 128
                               : F == Format::Q4_0       ? 8
                               : F == Format::Q5_0       ? 16
                               : F == Format::Q6_K       ? 32
                               : F == Format::Q3_K       ? 4
                                                         : 0;
  static constexpr bool kIsOffset1 = F == Format::Q4_1 || F == Format::Q5_1;
  static constexpr int kOffsetSub = kIsOffset1 || kHasMinima ? 32
                                    : F == Format::Q2_K      ? 16
                                                             : 0;
  static constexpr int kOffsetSign = kIsOffset1 ? 1 : -1;
  /// Sums of 16 products fit 16 bits, so that vpmaddwd applies two integer
  /// scales at once.
  static constexpr bool kPairs = F == Format::Q3_K || F == Format::Q2_K;
  static constexpr int kScales = kCols / kSub;
  static constexpr int kOffsets = kOffsetSub ? kCols / kOffsetSub : 0;
};

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_ROWS16TRAITS_H
