//===- FoldQuery.h - W_UK multiplied into W_Q -------------------*- C++ -*-===//
//
// DeepSeek-V2, arXiv 2405.04434, section 2.1.2: attention scores are
// (W_UK c) . (W_Q x) = c . (W_UK^T W_Q x), so the product W_UK^T W_Q can
// replace W_Q. This file uses no LLVM.
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
  moek::Format format; ///< Format of the result: F32 or BF16.

  /// Returns the rows per head of the result: those of W_UK^T W_Qnope, then the
  /// rope rows of W_Q.
  int64_t headRowsAsFloats() const { return latent + rope; }
  int64_t rows() const { return heads * headRowsAsFloats(); }
  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(wq.cols)));
  }

  /// Checks the formats. Fails with Unsupported for one that cannot be read or
  /// written.
  moert::Status check() const;
};

/// Writes rows first ... first + count - 1 of the result to `out`, with sums in
/// double precision. `fold` must have passed check().
void foldRows(const FoldQuery &fold, int64_t first, int64_t count,
              uint8_t *out);

} // namespace moec

#endif // MOE_COMPILER_PACK_FOLDQUERY_H
