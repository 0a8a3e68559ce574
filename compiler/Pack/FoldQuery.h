//===- FoldQuery.h - W_UK multiplied into W_Q -------------------*- C++ -*-===//
//
// DeepSeek-V2, arXiv 2405.04434, section 2.1.2: scores are (W_UK c) . (W_Q x) =
// c . (W_UK^T W_Q x), so that the product can stand in for W_Q. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_PACK_FOLDQUERY_H
#define MOE_COMPILER_PACK_FOLDQUERY_H

#include "kernels/Types.h"
#include "runtime/base/Status.h"

namespace moec {

struct FoldQuery {
  /// [1, heads * (nope + rope), cols]: per head nope rows, then rope rows.
  moek::WeightView wq;
  /// [heads, nope, latent], or [heads, latent, nope] when `transposed`.
  moek::WeightView wk;
  bool transposed;
  int64_t heads, nope, rope, latent;
  moek::Format format; ///< Of the result: F32 or BF16.

  /// Rows of a head of the result: W_UK^T W_Qnope, then W_Q's rope rows.
  int64_t headRowsAsFloats() const { return latent + rope; }
  int64_t rows() const { return heads * headRowsAsFloats(); }
  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(wq.cols)));
  }

  /// Fails with Unsupported for a format that cannot be read or written.
  moert::Status check() const;
};

/// Computes rows first ... first + count - 1 of the result into `out`. Sums in
/// double. `fold` passed check().
void foldRows(const FoldQuery &fold, int64_t first, int64_t count,
              uint8_t *out);

} // namespace moec

#endif // MOE_COMPILER_PACK_FOLDQUERY_H
