//===- WeightRows.h - Parts of weight rows as floats ------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_WEIGHTROWS_H
#define MOE_KERNELS_CPU_WEIGHTROWS_H

#include "kernels/cpu/Simd.h"

namespace moek {

/// `cols` elements of matrix `outer`, row `row`, from column `col` on; both
/// whole blocks of the format.
template <class S>
void weightRow(const WeightView &w, int64_t outer, int64_t row, int64_t col,
               int64_t cols, float *out) {
  FormatInfo info = formatInfo(w.format);
  const uint8_t *from = w.data + outer * w.outerStride + row * w.rowStride +
                        col / info.blockElements * info.blockBytes;
  switch (w.format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return S::Dequant::name(from, cols, out);
#include "kernels/quant/Formats.def"
  default:
    return; // Known by size only; a verified plan has no such weight.
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_WEIGHTROWS_H
