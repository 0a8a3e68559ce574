//===- F32.h - 32-bit floats ------------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_F32_H
#define MOE_KERNELS_QUANT_F32_H

#include <bit>
#include <cstdint>

namespace moek {

/// One little-endian float, at any address.
struct BlockF32 {
  static constexpr int kElements = 1;
  uint8_t bytes[4];
};
static_assert(sizeof(BlockF32) == 4);

inline void dequantize(const BlockF32 &block, float *out) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i)
    bits |= uint32_t(block.bytes[i]) << 8 * i;
  out[0] = std::bit_cast<float>(bits);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_F32_H
