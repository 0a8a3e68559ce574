//===- Weights.h - Shapes and places of weights -----------------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_WEIGHTS_H
#define MOE_DIALECTS_MOE_WEIGHTS_H

#include "kernels/quant/Format.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::moe {

/// The matrices of a weight in a model file. Strides are in bytes, from one
/// matrix or row to the next; the columns of a row are contiguous.
struct StoredBytes {
  int64_t file; ///< Index into the module's moe.files.
  int64_t offset, outerStride, rowStride;
};

/// A weight tensor as `outer` matrices of `rows` x `cols`. A vector is one row.
struct Matrices {
  int64_t outer = 1, rows = 1, cols = 1;
  moek::Format format;

  /// Returns the matrices of a weight of type `type`, which has static
  /// dimensions and an element type with a format.
  explicit Matrices(RankedTensorType type);

  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(cols)));
  }
  /// Bytes of one matrix without gaps.
  int64_t matrixBytes() const { return rows * rowBytes(); }
};

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_WEIGHTS_H
