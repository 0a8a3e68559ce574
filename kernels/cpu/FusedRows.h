//===- FusedRows.h - Unpack and multiply in one -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_FUSEDROWS_H
#define MOE_KERNELS_CPU_FUSEDROWS_H

#include <cstdint>

namespace moek {

/// Of one format, without a row of floats in between: weights that one token
/// meets once are not worth storing.
struct FusedRows {
  /// out[r] = sum over c < cols of w[r][c] * x[c], rows `stride` bytes apart.
  void (*dot)(const uint8_t *w, int64_t stride, int64_t rows, int64_t cols,
              const float *x, float *out);
  /// out[c] = sum over r < rows of x[r] * w[r][c]; cols is a multiple of 128.
  void (*sum)(const uint8_t *w, int64_t stride, int64_t rows, int64_t cols,
              const float *x, float *out);
};

} // namespace moek

#endif // MOE_KERNELS_CPU_FUSEDROWS_H
