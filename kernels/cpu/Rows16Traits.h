//===- Rows16Traits.h - Components of a tile of 16 rows ---------*- C++ -*-===//
//
// The properties of kernels/quant/Rows16.h that kernels of every vector width
// need:
//
//   w[r][c] = scale[r] * (code[r][c] - kZero) + kOffsetSign * offset[r]
//
// Codes are meant as kernels use them, after table look-ups and shifts.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ROWS16TRAITS_H
#define MOE_KERNELS_CPU_ROWS16TRAITS_H

#include "kernels/cpu/Inline.h"
#include "kernels/quant/Rows16.h"

#include <type_traits>

namespace moek {
namespace {

/// Properties of a format; kScales and kOffsets are its scales and offsets per
/// tile and row.
template <Format F> struct Rows16Traits : BlockTraits<BlockOf<F>> {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;
  static constexpr int kCols = Traits::kElements;
  static constexpr int kBytes = int(kRows16) * Traits::kPackedBytes;
  /// Bytes of the scales of all rows, which precede the codes.
  static constexpr int kScalePart = int(kRows16) * Traits::kScaleBytes;
  /// Bytes of 32 columns, including their share of the scales.
  static constexpr int kPartBytes = kBytes / (kCols / 32);
  static constexpr int kScales = kCols / Traits::kSub;
  static constexpr int kOffsets =
      Traits::kOffsetSub ? kCols / Traits::kOffsetSub : 0;
  /// Offsets of numbers other than F16, and of shifts.
  static constexpr int kNumbersAt = int(kRows16) * Traits::kHalfBytes;
  static constexpr int kShiftsAt =
      kNumbersAt + int(kRows16) * Traits::kNumberBytes;
  /// A tile has eight minima after eight scales.
  static constexpr bool kHasMinima =
      Traits::kScaleCode == ScaleCode::SixBitPairs;
  /// Number of six-bit values per tile and row.
  static constexpr int kSixBits = kHasMinima ? 2 * kScales
                                  : Traits::kScaleCode == ScaleCode::SixBits
                                      ? kScales
                                      : 0;
};

/// For panels of at least this size, few tokens are multiplied with two panels
/// at a time: memory then delivers two streams, and activations, which long
/// rows push out of L1, are read half as often. One token, 14336 columns: Q4_K
/// from 14.6 to 18.8 GB/s, Q8_0 from 14.9 to 21.2. Shorter streams end before
/// this pays off: 2048 columns of Q4_K would fall from 19.8 to 13.6 GB/s.
constexpr int64_t kTwoStreamBytes = 36 * 1024;

/// Calls panels(number of panels as a constant, first row) until all of `rows`
/// rows are covered.
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
