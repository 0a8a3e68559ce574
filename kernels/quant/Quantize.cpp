//===- Quantize.cpp - Converts floats to rows of a format -----------------===//

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
  // Codes are computed for the scale as stored. If it was rounded down, the
  // largest value is beyond the last code, but far beyond it only below F16's
  // normal range.
  float scale = f16ToFloat(d);
  bool some = std::isfinite(scale) && scale > 0;
  for (int i = 0; i < BlockQ8_0::kElements; ++i)
    block.codes[i] = int8_t(
        some ? std::clamp(std::nearbyint(x[i] / scale), -kMaxCode, kMaxCode)
             : 0);
}

/// Returns the largest magnitude, or infinity if there is a NaN.
float largestOf(const float *x, int count) {
  float largest = 0;
  for (int i = 0; i < count; ++i)
    if (!(std::fabs(x[i]) <= largest))
      largest = std::isnan(x[i]) ? std::numeric_limits<float>::infinity()
                                 : std::fabs(x[i]);
  return largest;
}

/// Returns the code whose kFp4Values entry is nearest to x / scale; if two are
/// equally near, the one nearer to zero.
int nearestFp4(float x, float scale) {
  int best = 0;
  float magnitude = std::fabs(x) / scale;
  for (int code = 1; code < 8; ++code)
    if (std::fabs(magnitude - kFp4Values[code]) <
        std::fabs(magnitude - kFp4Values[best]))
      best = code;
  return std::signbit(x) && best != 0 ? best + 8 : best;
}

/// Computes the codes of `count` elements for a scale and returns the sum of
/// their squared errors.
double fp4Codes(const float *x, int count, float scale, uint8_t *codes) {
  double error = 0;
  for (int i = 0; i < count; ++i) {
    codes[i] = uint8_t(scale > 0 ? nearestFp4(x[i], scale) : 0);
    double off = double(x[i]) - double(scale) * kFp4Values[codes[i]];
    error += off * off;
  }
  return error;
}

void quantize(const float *x, BlockMXFP4 &block) {
  constexpr int kCount = BlockMXFP4::kElements;
  uint8_t codes[kCount] = {};
  float largest = largestOf(x, kCount);
  // The largest value is 12 halves, so 2^(e - 128) * 12 reaches `largest` from
  // this exponent e on. With e - 1 the error of clipping may still be smaller.
  int exponent = 0;
  while (exponent < 254 && exponentToFloat(uint8_t(exponent)) * 12 < largest)
    ++exponent;
  block.d = uint8_t(exponent);
  double error = fp4Codes(x, kCount, exponentToFloat(block.d), codes);
  if (exponent > 0 && exponent < 254) {
    uint8_t clipped[kCount];
    if (fp4Codes(x, kCount, exponentToFloat(uint8_t(exponent - 1)), clipped) <
        error) {
      block.d = uint8_t(exponent - 1);
      std::copy_n(clipped, kCount, codes);
    }
  }
  // The largest number of the format is 12 * 2^127.
  if (!std::isfinite(largest)) {
    block.d = 255;
    std::fill_n(codes, kCount, uint8_t(7));
  }
  for (int i = 0; i < 16; ++i)
    block.codes[i] = uint8_t(codes[i] | codes[i + 16] << 4);
}

void quantize(const float *x, BlockNVFP4 &block) {
  for (int s = 0; s < 4; ++s) {
    float largest = largestOf(x + 16 * s, 16);
    // The smallest scale that reaches the largest value, or one less; 0x7e is
    // the largest scale, 448.
    uint8_t &scale = block.scales[s];
    scale = 0;
    while (scale < 0x7e && block.scale(s) * 12 < largest)
      ++scale;
    uint8_t codes[16], clipped[16];
    double error = fp4Codes(x + 16 * s, 16, block.scale(s), codes);
    if (scale > 1) {
      --scale;
      if (fp4Codes(x + 16 * s, 16, block.scale(s), clipped) < error)
        std::copy_n(clipped, 16, codes);
      else
        ++scale;
    }
    for (int i = 0; i < 8; ++i)
      block.codes[8 * s + i] = uint8_t(codes[i] | codes[i + 8] << 4);
  }
}

/// Computes the scale of ternary formats and the digits 0 .. 2 of 256 elements.
Bits16 ternaryDigits(const float *x, uint8_t *digits) {
  float largest = largestOf(x, 256);
  uint16_t d = floatToF16(std::isfinite(largest)
                              ? largest
                              : std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 256; ++i)
    digits[i] = uint8_t(
        std::isfinite(largest) && largest > 0
            ? 1 + std::clamp(std::nearbyint(x[i] / largest), -1.0f, 1.0f)
            : 1);
  return Bits16::of(d);
}

void quantize(const float *x, BlockTQ1_0 &block) {
  uint8_t digits[256];
  block.d = ternaryDigits(x, digits);
  const uint8_t *next = digits;
  auto put = [&](uint8_t *bytes, int count, int perByte) {
    for (int i = 0; i < count; ++i) {
      int number = 0; // A number of five base-3 digits, the highest first.
      for (int k = 0; k < 5; ++k)
        number = 3 * number + (k < perByte ? next[k * count + i] : 0);
      bytes[i] = uint8_t((number * 256 + 242) / 243); // Rounds up.
    }
    next += count * perByte;
  };
  put(block.low, 32, 5);
  put(block.middle, 16, 5);
  put(block.high, 4, 4);
}

void quantize(const float *x, BlockTQ2_0 &block) {
  uint8_t digits[256];
  block.d = ternaryDigits(x, digits);
  for (int i = 0; i < 64; ++i) {
    const uint8_t *first = digits + i / 32 * 128 + i % 32;
    block.codes[i] =
        uint8_t(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
  }
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
  case Format::MXFP4:
    return quantizeBlocks<BlockMXFP4>(values, cols, row);
  case Format::NVFP4:
    return quantizeBlocks<BlockNVFP4>(values, cols, row);
  case Format::TQ1_0:
    return quantizeBlocks<BlockTQ1_0>(values, cols, row);
  case Format::TQ2_0:
    return quantizeBlocks<BlockTQ2_0>(values, cols, row);
  default:
    return false;
  }
}

} // namespace moek
