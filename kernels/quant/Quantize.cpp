//===- Quantize.cpp - Floats as rows of a format --------------------------===//

#include "kernels/quant/Quantize.h"

#include "kernels/quant/Blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace moek {

namespace {

void quantize(const float *x, BlockF32 &block) {
  auto bits = std::bit_cast<uint32_t>(*x);
  for (int i = 0; i < 4; ++i)
    block.bytes[i] = uint8_t(bits >> 8 * i);
}

void quantize(const float *x, BlockF16 &block) {
  block.value = Bits16::of(floatToF16(*x));
}

void quantize(const float *x, BlockBF16 &block) {
  block.value = Bits16::of(floatToBf16(*x));
}

void quantize(const float *x, BlockQ8_0 &block) {
  constexpr float kMaxCode = 127;
  float biggest = 0;
  bool finite = true;
  for (int i = 0; i < BlockQ8_0::kElements; ++i) {
    biggest = std::max(biggest, std::fabs(x[i]));
    finite = finite && std::isfinite(x[i]);
  }
  uint16_t d = floatToF16(finite ? biggest / kMaxCode
                                 : std::numeric_limits<float>::quiet_NaN());
  block.d = Bits16::of(d);
  // Codes are for the scale as stored. Where it was rounded down the largest
  // value lies beyond the last code, far beyond only below F16's normal range.
  float scale = f16ToFloat(d);
  bool some = std::isfinite(scale) && scale > 0;
  for (int i = 0; i < BlockQ8_0::kElements; ++i)
    block.codes[i] = int8_t(
        some ? std::clamp(std::nearbyint(x[i] / scale), -kMaxCode, kMaxCode)
             : 0);
}

template <class Block>
bool quantizeBlocks(const float *values, int64_t cols, uint8_t *row) {
  auto *blocks = reinterpret_cast<Block *>(row);
  for (int64_t i = 0; i < cols / Block::kElements; ++i)
    quantize(values + i * Block::kElements, blocks[i]);
  return true;
}

} // namespace

bool quantizeRow(Format format, const float *values, int64_t cols,
                 uint8_t *row) {
  switch (format) {
  case Format::F32:
    return quantizeBlocks<BlockF32>(values, cols, row);
  case Format::F16:
    return quantizeBlocks<BlockF16>(values, cols, row);
  case Format::BF16:
    return quantizeBlocks<BlockBF16>(values, cols, row);
  case Format::Q8_0:
    return quantizeBlocks<BlockQ8_0>(values, cols, row);
  default:
    return false;
  }
}

} // namespace moek
