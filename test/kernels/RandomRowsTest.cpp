#include "test/support/RandomRows.h"

#include "kernels/quant/Dequant.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace moek;

namespace {

constexpr int64_t kCols = 1024;
constexpr uint64_t kRows = 64;

std::vector<uint8_t> rowOf(Format format, uint64_t weight, uint64_t row,
                           bool isVector = false) {
  std::vector<uint8_t> bytes(rowBytes(format, kCols), 0xcd);
  moetest::drawRow(format, weight, row, kCols, isVector, bytes.data());
  return bytes;
}

class RandomRows : public testing::TestWithParam<Format> {};

std::vector<Format> formatsOfWeights() {
  std::vector<Format> formats;
#define MOE_FORMAT(name, id, elements, bytes) formats.push_back(Format::name);
#include "kernels/quant/Formats.def"
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Formats, RandomRows,
                         testing::ValuesIn(formatsOfWeights()),
                         [](const auto &each) {
                           return std::string(formatInfo(each.param).name);
                         });

TEST_P(RandomRows, KeepTheSizeOfWhatTheyMultiply) {
  double sum = 0, squares = 0;
  std::vector<float> values(kCols);
  for (uint64_t row = 0; row < kRows; ++row) {
    std::vector<uint8_t> bytes = rowOf(GetParam(), 7, row);
    ASSERT_TRUE(dequantizeRow(GetParam(), bytes.data(), kCols, values.data()));
    for (float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      sum += double(value);
      squares += double(value) * double(value);
    }
  }
  constexpr double kCount = double(kRows) * kCols;
  double unit = 1 / std::sqrt(double(kCols));
  // Codes of formats without an offset reach one further below zero than above;
  // a fourth of TQ2_0's are 2.
  EXPECT_NEAR(sum / kCount, 0,
              (GetParam() == Format::TQ2_0 ? 0.45 : 0.12) * unit);
  // Formats with eight bits of scale have steps of up to 2.
  double deviation = std::sqrt(squares / kCount) / unit;
  EXPECT_GT(deviation, 0.7);
  EXPECT_LT(deviation, 1.45);
}

TEST_P(RandomRows, FollowFromTheirNumbers) {
  std::vector<uint8_t> row = rowOf(GetParam(), 3, 5);
  EXPECT_EQ(row, rowOf(GetParam(), 3, 5));
  EXPECT_NE(row, rowOf(GetParam(), 3, 6));
  EXPECT_NE(row, rowOf(GetParam(), 4, 5));
}

TEST(RandomRowsTest, VectorsAreNearOne) {
  std::vector<float> values(kCols);
  std::vector<uint8_t> row = rowOf(Format::F32, 1, 0, /*isVector=*/true);
  ASSERT_TRUE(dequantizeRow(Format::F32, row.data(), kCols, values.data()));
  for (float value : values)
    EXPECT_NEAR(value, 1, 0.1001);
}

} // namespace
