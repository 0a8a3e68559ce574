//===- WeightRows.h - Parts of weight rows as floats ------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_WEIGHTROWS_H
#define MOE_KERNELS_CPU_WEIGHTROWS_H

#include "kernels/cpu/Simd.h"
#include "kernels/quant/Dequant.h"

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
  case Format::F32:
    return readKv<S>(KvType::F32, from, cols, out);
  case Format::F16:
    return readKv<S>(KvType::F16, from, cols, out);
  case Format::BF16:
    return readKv<S>(KvType::BF16, from, cols, out);
  default:
    // False only for a format without kernels, which a verified plan has not.
    (void)dequantizeRow(w.format, from, cols, out);
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_WEIGHTROWS_H
