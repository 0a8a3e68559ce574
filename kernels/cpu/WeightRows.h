//===- WeightRows.h - Converts weight rows to floats ------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_WEIGHTROWS_H
#define MOE_KERNELS_CPU_WEIGHTROWS_H

#include "kernels/KernelFormats.h"
#include "kernels/cpu/Simd.h"

namespace moek {

/// Converts `cols` elements of row `row` of matrix `outer` to floats, from
/// column `col` on; both are multiples of the format's block.
template <class S>
void weightRow(const WeightView &w, int64_t outer, int64_t row, int64_t col,
               int64_t cols, float *out) {
  FormatInfo info = formatInfo(w.format);
  const uint8_t *from = w.data + outer * w.outerStride + row * w.rowStride +
                        col / info.blockElements * info.blockBytes;
  switch (w.format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  MOE_BUILT_##name(case Format::name                                           \
                   : return S::Dequant::name(from, cols, out);)
#include "kernels/quant/Formats.def"
  default:
    // Either only the format's size is known, and a verified plan has no such
    // weight, or a test build leaves the format out.
    return;
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_WEIGHTROWS_H
