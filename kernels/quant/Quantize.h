//===- Quantize.h - Floats as rows of a format ------------------*- C++ -*-===//
//
// For weights that the compiler computes; those of a model file keep their
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_QUANTIZE_H
#define MOE_KERNELS_QUANT_QUANTIZE_H

#include "kernels/quant/Format.h"

#include <cstdint>

namespace moek {

/// Whether quantizeRow() writes the format.
constexpr bool canQuantize(Format format) {
  return format == Format::F32 || format == Format::F16 ||
         format == Format::BF16 || format == Format::Q8_0;
}

/// Writes `cols` values, a multiple of the format's block, to `row`, each
/// rounded to the nearest that the format has. A Q8_0 block with a NaN or an
/// infinity reads as NaN. Of a format that it cannot write, nothing is written
/// and the result is false.
[[nodiscard]] bool quantizeRow(Format format, const float *values, int64_t cols,
                               uint8_t *row);

} // namespace moek

#endif // MOE_KERNELS_QUANT_QUANTIZE_H
