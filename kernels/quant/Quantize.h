//===- Quantize.h - Converts floats to rows of a format ---------*- C++ -*-===//
//
// Used for weights that the compiler computes; those of a model file keep their
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_QUANTIZE_H
#define MOE_KERNELS_QUANT_QUANTIZE_H

#include "kernels/quant/Format.h"

#include <cstdint>

namespace moek {

/// Whether quantizeRow() supports the format.
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

/// Converts `cols` values (a multiple of the format's block) to a row of
/// `format`. Each is rounded to the nearest value that the format has with the
/// block's scale. For Q8_0, TQ1_0 and TQ2_0 that scale follows from the largest
/// magnitude; for MXFP4 and NVFP4 it is the smallest one that reaches it, or
/// the next smaller one if clipping then gives a smaller squared error. A block
/// with a NaN or an infinity reads back as NaN (Q8_0, TQ), infinities (MXFP4),
/// or large numbers (NVFP4, which has neither). If the format is not supported,
/// nothing is written and the result is false.
[[nodiscard]] bool quantizeRow(Format format, const float *values, int64_t cols,
                               uint8_t *row);

} // namespace moek

#endif // MOE_KERNELS_QUANT_QUANTIZE_H
