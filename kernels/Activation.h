//===- Activation.h - Layout of encoded activation rows ---------*- C++ -*-===//
//
// A8 row of `cols` elements (a multiple of 32), 64-byte aligned:
//   int8_t  q[cols]           values -127 .. 127
//   float   scale[cols / 32]  x is about q * scale
//   int16_t sum[cols / 16]    sums of 16 q, for formats with a minimum or
//   offset
// Scales are float: an FP16 sum or scale overflows on real activations.
//
// A8K is A8 whose scales are equal within each kA8KBlock columns (counted from
// the first; the last block may be shorter), for products whose integer sums
// span so many. What reads A8 reads A8K.
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

/// Whether a kernel that reads `wanted` reads a buffer of `stored`.
constexpr bool reads(Encoding wanted, Encoding stored) {
  return wanted == stored ||
         (wanted == Encoding::A8 && stored == Encoding::A8K);
}

/// The encoding that kernels reading `a` and `b` both read, if there is one.
constexpr Encoding readByBoth(Encoding a, Encoding b) {
  return reads(a, b) ? b : a;
}

/// Columns that share a scale in an A8 encoding.
constexpr int64_t a8BlockCols(Encoding encoding) {
  return encoding == Encoding::A8K ? kA8KBlock : kA8Block;
}

/// Bytes from one row of a buffer to the next.
constexpr int64_t encodedRowBytes(Encoding encoding, int64_t cols) {
  return isA8(encoding) ? a8RowBytes(cols) : cols * 4;
}

} // namespace moek

#endif // MOE_KERNELS_ACTIVATION_H
