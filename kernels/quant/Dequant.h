//===- Dequant.h - Converts rows of any format to floats --------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_DEQUANT_H
#define MOE_KERNELS_QUANT_DEQUANT_H

#include "kernels/quant/Format.h"

#include <cstdint>

namespace moek {

/// Converts the `cols` values of a row to floats at `out`. `cols` is a multiple
/// of the format's block. For a format without kernels, whose values are
/// unknown, nothing is written and the result is false.
[[nodiscard]] bool dequantizeRow(Format format, const uint8_t *row,
                                 int64_t cols, float *out);

} // namespace moek

#endif // MOE_KERNELS_QUANT_DEQUANT_H
