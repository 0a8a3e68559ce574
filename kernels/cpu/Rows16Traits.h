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

#include <type_traits>

namespace moek {
namespace {

/// Of a format. kSub columns share a scale, kOffsetSub an offset (0: there is
/// none); kScales and kOffsets count them per tile.
template <Format F> struct Rows16Traits {
  static constexpr Rows16Shape kShape = rows16Shape(F);
  static constexpr int kBits = kShape.codeBits;
  static constexpr int kCols = int(formatInfo(F).blockElements);
  static constexpr int kBytes = 16 * int(formatInfo(F).blockBytes);
  /// Of 32 columns, with their share of the scale part.
  static constexpr int kPartBytes = kBytes / (kCols / 32);
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

/// From this size on panels are multiplied with few tokens two at a time: two
/// streams from memory, and activations, which long rows push out of L1, are
/// read half as often. One token, 14336 columns: Q4_K 14.6 to 18.8 GB/s, Q8_0
/// 14.9 to 21.2. Streams shorter than that end before they gain anything: 2048
/// columns of Q4_K would fall from 19.8 to 13.6.
constexpr int64_t kTwoStreamBytes = 36 * 1024;

/// Calls panels(number of panels as a constant, first row) for all of
/// `rows` rows.
template <class Fn>
inline __attribute__((always_inline)) void
forStreams(int64_t rows, int64_t wStride, Fn &&panels) {
  int64_t r = 0;
  if (kRows16 * wStride >= kTwoStreamBytes)
    for (; rows - r > kRows16; r += 2 * kRows16)
      panels(std::integral_constant<int, 2>(), r);
  for (; r < rows; r += kRows16)
    panels(std::integral_constant<int, 1>(), r);
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_ROWS16TRAITS_H
