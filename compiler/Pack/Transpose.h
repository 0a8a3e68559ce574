//===- Transpose.h - Matrices of a weight transposed ------------*- C++ -*-===//
//
// A gemm sums along a weight's rows. Where a product sums along columns
// (W_UK^T q), it needs the transposed weight. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_PACK_TRANSPOSE_H
#define MOE_COMPILER_PACK_TRANSPOSE_H

#include "kernels/Types.h"
#include "runtime/base/Status.h"

namespace moec {

/// [outer, rows, cols] becomes [outer, cols, rows].
struct Transpose {
  moek::WeightView from;
  moek::Format format; ///< Of the result; its blocks hold elements of a column.

  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(from.rows)));
  }

  /// Fails with Unsupported for a format that cannot be read or written.
  moert::Status check() const;
};

/// Computes rows first ... first + count - 1 of matrix `matrix` of the result
/// into `out`. `transpose` passed check().
void transposeRows(const Transpose &transpose, int64_t matrix, int64_t first,
                   int64_t count, uint8_t *out);

} // namespace moec

#endif // MOE_COMPILER_PACK_TRANSPOSE_H
