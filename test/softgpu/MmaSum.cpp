//===- MmaSum.cpp ---------------------------------------------------------===//

#include "test/softgpu/MmaSum.h"

#include "test/softgpu/Numbers.h"

#include <algorithm>

namespace softgpu {

static constexpr int kRows = MmaTile::kRows, kColumns = MmaTile::kColumns,
                     kDepth = MmaTile::kDepth;
static constexpr int kZero = -400; ///< The exponent of zero, below all others.

MmaModel mmaModel(int arch) {
  if (arch < 80)
    return {4, 24};
  return arch < 90 ? MmaModel{8, 24} : MmaModel{16, 25};
}

static int exponentOf(float value, int least) {
  int exponent = int(asBits(value) >> 23 & 255) - 127;
  return value == 0 ? kZero : std::max(exponent, least);
}

static double powerOfTwo(int exponent) {
  return std::bit_cast<double>(uint64_t(1023 + exponent) << 52);
}

/// Truncates to F32; infinite if out of range.
static float cutOff(double value) {
  double magnitude = std::fabs(value);
  if (magnitude >= 0x1p128)
    return value > 0 ? asFloat(0x7F800000) : asFloat(0xFF800000);
  if (magnitude < 0x1p-149)
    return 0; // The sum is a zero of either sign.
  if (magnitude < 0x1p-126)
    return asFloat(encodeFloat(value, kSingle, Rounding::Zero));
  return float(std::bit_cast<double>(std::bit_cast<uint64_t>(value) &
                                     ~uint64_t(0x1FFFFFFF)));
}

/// Adds `count` finite products from `first` on, and c, for one row.
static void sumSegment(const float *a, const int *ea,
                       const float (*b)[kColumns], const int (*eb)[kColumns],
                       float *c, int first, int count, int fraction) {
  int most[kColumns];
  for (int n = 0; n < kColumns; ++n)
    most[n] = exponentOf(c[n], -126);
  for (int k = first; k < first + count; ++k)
    for (int n = 0; n < kColumns; ++n)
      most[n] = std::max(most[n], ea[k] + eb[k][n]);
  double scale[kColumns], sum[kColumns];
  for (int n = 0; n < kColumns; ++n) {
    most[n] = std::max(most[n], kZero);
    scale[n] = powerOfTwo(fraction - most[n]);
    sum[n] = std::trunc(double(c[n]) * scale[n]);
  }
  for (int k = first; k < first + count; ++k) {
    double x = a[k];
    for (int n = 0; n < kColumns; ++n)
      sum[n] += std::trunc(x * double(b[k][n]) * scale[n]);
  }
  for (int n = 0; n < kColumns; ++n)
    c[n] = cutOff(sum[n] * powerOfTwo(most[n] - fraction));
}

static bool isFinite(const float *values, int count) {
  uint32_t highest = 0;
  for (int i = 0; i < count; ++i)
    highest = std::max(highest, asBits(values[i]) & 0x7FFFFFFF);
  return highest < 0x7F800000;
}

/// Sums with an infinity or NaN, for which rounding does not matter.
static float sumSpecial(const MmaTile &tile, int row, int column, int depth) {
  double sum = tile.c[row][column];
  for (int k = 0; k < depth; ++k)
    sum += double(tile.a[row][k]) * tile.b[k][column];
  return canonical(float(sum));
}

void sumNative(MmaTile &tile, int depth, int minExponent, MmaModel model) {
  bool finite = isFinite(&tile.a[0][0], kRows * kDepth) &&
                isFinite(&tile.b[0][0], kDepth * kColumns) &&
                isFinite(&tile.c[0][0], kRows * kColumns);
  int ea[kRows][kDepth], eb[kDepth][kColumns];
  for (int m = 0; m < kRows; ++m)
    for (int k = 0; k < kDepth; ++k)
      ea[m][k] = exponentOf(tile.a[m][k], minExponent);
  for (int k = 0; k < kDepth; ++k)
    for (int n = 0; n < kColumns; ++n)
      eb[k][n] = exponentOf(tile.b[k][n], minExponent);
  for (int m = 0; m < kRows; ++m) {
    float special[kColumns];
    for (int n = 0; n < kColumns && !finite; ++n)
      special[n] = sumSpecial(tile, m, n, depth);
    for (int k = 0; k < depth; k += model.segment)
      sumSegment(tile.a[m], ea[m], tile.b, eb, tile.c[m], k,
                 std::min(model.segment, depth - k), model.fraction);
    for (int n = 0; n < kColumns && !finite; ++n)
      if (!std::isfinite(special[n]))
        tile.c[m][n] = special[n];
  }
}

void sumPlain(MmaTile &tile, int depth) {
  for (auto &row : tile.c) {
    const float *a = tile.a[&row - tile.c];
    for (int k = 0; k < depth; ++k)
      for (int n = 0; n < kColumns; ++n)
        row[n] = std::fma(a[k], tile.b[k][n], row[n]);
    for (float &value : row)
      value = canonical(value);
  }
}

} // namespace softgpu
