//===- QuantizeTest.cpp - Conversion of floats to formats -----------------===//

#include "kernels/quant/Quantize.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Half.h"
#include "kernels/quant/Q8_0.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace moek;

namespace {

std::vector<float> numbers(int64_t count, float size) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[size_t(i)] = size * std::sin(0.3f + 1.7f * float(i));
  return values;
}

std::vector<float> roundTrip(Format format, const std::vector<float> &values) {
  auto cols = int64_t(values.size());
  std::vector<uint8_t> row(rowBytes(format, uint64_t(cols)));
  EXPECT_TRUE(quantizeRow(format, values.data(), cols, row.data()));
  std::vector<float> read(values.size());
  EXPECT_TRUE(dequantizeRow(format, row.data(), cols, read.data()));
  return read;
}

TEST(QuantizeRow, RoundingIsIdempotent) {
  std::vector<float> values = numbers(7, 3);
  EXPECT_EQ(roundTrip(Format::F32, values), values);
  for (Format format : {Format::F16, Format::BF16}) {
    // A rounded value is not changed by rounding again.
    std::vector<float> rounded = roundTrip(format, values);
    EXPECT_NE(rounded, values);
    EXPECT_EQ(roundTrip(format, rounded), rounded);
  }
}

TEST(QuantizeRow, Q8_0RoundsToTheNearestCode) {
  // The second block is a hundredth of the first and has its own scale.
  std::vector<float> values = numbers(64, 3);
  for (size_t i = 32; i < 64; ++i)
    values[i] /= 100;
  std::vector<float> read = roundTrip(Format::Q8_0, values);
  for (size_t block : {0, 32}) {
    float biggest = 0;
    for (size_t i = block; i < block + 32; ++i)
      biggest = std::max(biggest, std::fabs(values[i]));
    // Half a step, plus the scale's rounding to F16 (2^-11) relative to the
    // value.
    for (size_t i = block; i < block + 32; ++i)
      EXPECT_NEAR(read[i], values[i], biggest * (0.5f / 127 + 0x1p-11f)) << i;
  }
}

TEST(QuantizeRow, Q8_0KeepsItsOwnValues) {
  BlockQ8_0 block;
  block.d = Bits16::of(floatToF16(0.0123f));
  for (int i = 0; i < 32; ++i)
    block.codes[i] = int8_t(i * 8 - 127);
  std::vector<float> values(32);
  dequantize(block, values.data());
  EXPECT_EQ(roundTrip(Format::Q8_0, values), values);
}

TEST(QuantizeRow, Q8_0OfTinyAndHugeValues) {
  EXPECT_EQ(roundTrip(Format::Q8_0, std::vector<float>(32, 0)),
            std::vector<float>(32, 0));
  // The value needs 1.45 times the smallest F16 as its scale and gets the
  // smallest: codes stop at 127 instead of wrapping around.
  for (float value : roundTrip(Format::Q8_0, std::vector<float>(32, 1.1e-5f))) {
    EXPECT_GT(value, 0.6e-5f);
    EXPECT_LE(value, 1.6e-5f);
  }
  // Below half of the smallest scale everything becomes zero.
  for (float value : roundTrip(Format::Q8_0, std::vector<float>(32, 1e-6f)))
    EXPECT_EQ(value, 0);
  // No F16 is large enough.
  for (float value : roundTrip(Format::Q8_0, std::vector<float>(32, 1e7f)))
    EXPECT_FALSE(std::isfinite(value));
}

TEST(QuantizeRow, Q8_0BlocksWithNonFiniteValuesAreNan) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()})
    for (size_t at : {32, 40, 63}) {
      std::vector<float> values = numbers(96, 1);
      values[at] = bad;
      std::vector<float> read = roundTrip(Format::Q8_0, values);
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(std::isnan(read[i]), i / 32 == 1) << at << " " << i;
    }
}

TEST(QuantizeRow, SmallFormatsKeepTheirOwnValues) {
  for (Format format :
       {Format::MXFP4, Format::NVFP4, Format::TQ1_0, Format::TQ2_0}) {
    SCOPED_TRACE(formatInfo(format).name);
    std::vector<float> once = roundTrip(format, numbers(512, 3));
    EXPECT_EQ(roundTrip(format, once), once);
    EXPECT_EQ(roundTrip(format, std::vector<float>(256, 0)),
              std::vector<float>(256, 0));
  }
}

TEST(QuantizeRow, Fp4RoundsToTheNearestValue) {
  // The values 0, 1, 2, 3, 4, 6, 8, 12 times a scale that makes 12 at least the
  // largest: neighbours differ by at most a sixth of the largest, with a scale
  // up to twice (MXFP4) or an eighth more (NVFP4) than needed.
  for (auto [format, step] : {std::pair(Format::MXFP4, 2 / 6.0f),
                              std::pair(Format::NVFP4, 1.125f / 6)}) {
    SCOPED_TRACE(formatInfo(format).name);
    std::vector<float> values = numbers(256, 5);
    std::vector<float> read = roundTrip(format, values);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(read[i], values[i], 5 * step) << i;
    EXPECT_NE(read, values);
  }
}

TEST(QuantizeRow, Mxfp4FitsItsExponent) {
  // 6 * 2^-1 exactly; 2^-127 and below; non-finite values.
  EXPECT_EQ(roundTrip(Format::MXFP4, std::vector<float>(32, 3.0f)),
            std::vector<float>(32, 3.0f));
  EXPECT_EQ(roundTrip(Format::MXFP4, std::vector<float>(32, 0x1p-128f)),
            std::vector<float>(32, 0x1p-128f));
  // 6.1 is clipped to 6, because twice the scale would lose the small values.
  std::vector<float> values(32, 0.5f);
  values[0] = 6.1f;
  std::vector<float> want(32, 0.5f);
  want[0] = 6;
  EXPECT_EQ(roundTrip(Format::MXFP4, values), want);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    values[5] = bad;
    for (float value : roundTrip(Format::MXFP4, values))
      EXPECT_FALSE(std::isfinite(value));
  }
}

TEST(QuantizeRow, TernaryIsTheSignOfWhatIsLarge) {
  for (Format format : {Format::TQ1_0, Format::TQ2_0}) {
    std::vector<float> values = numbers(256, 2), want(256);
    values[7] = -2;
    for (size_t i = 0; i < values.size(); ++i)
      want[i] = std::fabs(values[i]) > 1 ? std::copysign(2.0f, values[i]) : 0;
    EXPECT_EQ(roundTrip(format, values), want);
    values[9] = std::numeric_limits<float>::infinity();
    for (float value : roundTrip(format, values))
      EXPECT_TRUE(std::isnan(value));
  }
}

TEST(QuantizeRow, RefusesOtherFormats) {
  std::vector<float> values = numbers(256, 1);
  std::vector<uint8_t> row(1024, 7);
  for (Format format : {Format::Q4_K, Format::Q4_0, Format::IQ1_S}) {
    EXPECT_FALSE(canQuantize(format));
    EXPECT_FALSE(quantizeRow(format, values.data(), 256, row.data()));
  }
  EXPECT_EQ(row, std::vector<uint8_t>(1024, 7));
}

} // namespace
