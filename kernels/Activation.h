//===- Activation.h - Layout of encoded activation rows ---------*- C++ -*-===//
//
// A row of `cols` elements in encoding A8 (cols is a multiple of 32; the row is
// 64-byte aligned):
//   float   scale[cols / 32]  x is about q * scale
//   int16_t sum[cols / 16]    sum of each 16 q, for weight formats with a
//                             minimum or an offset
// Scales are float because an FP16 scale or sum overflows on real activations.
//
// A8K is A8 with equal scales within each block of kA8KBlock columns (counted
// from the first column; the last block may be shorter). It serves gemms whose
// integer sums run over that many columns. A kernel that reads A8 also reads
// A8K.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ACTIVATION_H
#define MOE_KERNELS_ACTIVATION_H

#include "kernels/Types.h"

namespace moek {

inline constexpr int64_t kA8Block = 32;
inline constexpr int64_t kA8KBlock = 128;

constexpr int64_t a8ScaleOffset(int64_t cols) { return cols; }
constexpr int64_t a8SumOffset(int64_t cols) {
  return cols + cols / kA8Block * int64_t(sizeof(float));
}
constexpr int64_t a8RowBytes(int64_t cols) {
  int64_t bytes = a8SumOffset(cols) + cols / 16 * int64_t(sizeof(int16_t));
  return (bytes + 63) / 64 * 64;
}

constexpr bool isA8(Encoding encoding) {
  return encoding == Encoding::A8 || encoding == Encoding::A8K;
}

/// Returns whether a kernel that reads encoding `wanted` can read a buffer in
/// `stored`.
constexpr bool reads(Encoding wanted, Encoding stored) {
  return wanted == stored ||
         (wanted == Encoding::A8 && stored == Encoding::A8K);
}

/// The encoding that a kernel reading `a` and a kernel reading `b` can both
/// read. Valid only if there is one.
constexpr Encoding readByBoth(Encoding a, Encoding b) {
  return reads(a, b) ? b : a;
}

/// Number of columns that share a scale in an A8 encoding.
constexpr int64_t a8BlockCols(Encoding encoding) {
  return encoding == Encoding::A8K ? kA8KBlock : kA8Block;
}

/// Bytes from one row of a buffer to the next.
constexpr int64_t encodedRowBytes(Encoding encoding, int64_t cols) {
  return isA8(encoding) ? a8RowBytes(cols) : cols * 4;
}

} // namespace moek

#endif // MOE_KERNELS_ACTIVATION_H
