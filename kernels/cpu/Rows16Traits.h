//===- Rows16Traits.h - What an interleaved tile consists of ----*- C++ -*-===//
//
// Of kernels/quant/Rows16.h, what kernels of every vector width need:
//
//   w[r][c] = scale[r] * (code[r][c] - kZero) + kOffsetSign * offset[r]
//
// Codes are as vectors are given them: with values and shifts looked up.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ROWS16TRAITS_H
#define MOE_KERNELS_CPU_ROWS16TRAITS_H

#include "kernels/quant/Rows16.h"

#include <type_traits>

namespace moek {
namespace {

/// Of a format: kScales and kOffsets count its scales and offsets per tile.
template <Format F> struct Rows16Traits : BlockTraits<BlockOf<F>> {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;
  static constexpr int kCols = Traits::kElements;
  static constexpr int kBytes = int(kRows16) * Traits::kPackedBytes;
  /// Of scales in all rows: codes come behind them.
  static constexpr int kScalePart = int(kRows16) * Traits::kScaleBytes;
  /// Of 32 columns, with their share of the scale part.
  static constexpr int kPartBytes = kBytes / (kCols / 32);
  static constexpr int kScales = kCols / Traits::kSub;
  static constexpr int kOffsets =
      Traits::kOffsetSub ? kCols / Traits::kOffsetSub : 0;
  /// Where numbers other than F16 begin, and shifts.
  static constexpr int kNumbersAt = int(kRows16) * Traits::kHalfBytes;
  static constexpr int kShiftsAt =
      kNumbersAt + int(kRows16) * Traits::kNumberBytes;
  /// Eight minima behind eight scales.
  static constexpr bool kHasMinima =
      Traits::kScaleCode == ScaleCode::SixBitPairs;
  /// Six-bit numbers per tile and row.
  static constexpr int kSixBits = kHasMinima ? 2 * kScales
                                  : Traits::kScaleCode == ScaleCode::SixBits
                                      ? kScales
                                      : 0;
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
MOE_INLINE void forStreams(int64_t rows, int64_t wStride, Fn &&panels) {
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
