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
  switch (format) {
  case Format::F32:
  case Format::F16:
  case Format::BF16:
  case Format::Q8_0:
  case Format::MXFP4:
  case Format::NVFP4:
  case Format::TQ1_0:
  case Format::TQ2_0:
    return true;
  default:
    return false;
  }
}

/// Writes `cols` values, a multiple of the format's block, to `row`, each
/// rounded to the nearest that the format has with the block's scale. That is
/// for Q8_0, TQ1_0 and TQ2_0 of the largest magnitude; for MXFP4 and NVFP4 the
/// least that reaches it, or the next smaller one where clipping what is beyond
/// makes a smaller squared error. A block with a NaN or an infinity reads as
/// NaN (Q8_0, TQ), infinities (MXFP4), or large numbers (NVFP4, which has no
/// other). Of a format that it cannot write, nothing is written and the result
/// is false.
[[nodiscard]] bool quantizeRow(Format format, const float *values, int64_t cols,
                               uint8_t *row);

} // namespace moek

#endif // MOE_KERNELS_QUANT_QUANTIZE_H
