//===- F16.h - IEEE binary16 ------------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_F16_H
#define MOE_KERNELS_QUANT_F16_H

#include "kernels/quant/Half.h"

namespace moek {

/// 1 sign, 5 exponent and 10 mantissa bits.
struct BlockF16 {
  static constexpr int kElements = 1;
  Bits16 value;
};
static_assert(sizeof(BlockF16) == 2);

inline void dequantize(const BlockF16 &block, float *out) {
  out[0] = f16ToFloat(block.value);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_F16_H
