//===- BF16.h - bfloat16 ----------------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_BF16_H
#define MOE_KERNELS_QUANT_BF16_H

#include "kernels/quant/Half.h"

namespace moek {

/// The upper half of a float: 1 sign, 8 exponent and 7 mantissa bits.
struct BlockBF16 {
  static constexpr int kElements = 1;
  Bits16 value;
};
static_assert(sizeof(BlockBF16) == 2);

inline void dequantize(const BlockBF16 &block, float *out) {
  out[0] = bf16ToFloat(block.value);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_BF16_H
