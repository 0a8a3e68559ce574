//===- Transpose.h - Matrices of a weight transposed ------------*- C++ -*-===//
//
// A gemm sums along the rows of a weight. A product that sums along columns
// (W_UK^T q) needs the transposed weight. This file uses no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_PACK_TRANSPOSE_H
#define MOE_COMPILER_PACK_TRANSPOSE_H

#include "kernels/Types.h"
#include "runtime/base/Status.h"

namespace moec {

/// Turns a weight [outer, rows, cols] into [outer, cols, rows].
struct Transpose {
  moek::WeightView from;
  /// Format of the result, whose blocks hold elements of one column of `from`.
  moek::Format format;

  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(from.rows)));
  }

  /// Checks the formats. Fails with Unsupported for one that cannot be read or
  /// written.
  moert::Status check() const;
};

/// Writes rows first ... first + count - 1 of matrix `matrix` of the result to
/// `out`. `transpose` must have passed check().
void transposeRows(const Transpose &transpose, int64_t matrix, int64_t first,
                   int64_t count, uint8_t *out);

} // namespace moec

#endif // MOE_COMPILER_PACK_TRANSPOSE_H
