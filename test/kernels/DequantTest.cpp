//===- DequantTest.cpp - Compares decoders with independent readers -------===//
//
// test/data/dequant/vectors.tar.xz contains random blocks of every format and
// the floats that another implementation reads from them (see
// make_dequant_vectors.py). For the formats with tables, golden.tar.xz has
// more: X.bin, blocks of format X, and X.npy, the floats on which two decoders
// agree.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Dequant.h"

#include "kernels/quant/Half.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

using namespace moek;

namespace {

struct Vectors {
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

std::map<Format, Vectors> readVectors() {
  std::ifstream file(MOE_DEQUANT_VECTORS, std::ios::binary);
  std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  std::map<Format, Vectors> result;
  size_t at = 0;
  auto take = [&](void *to, size_t size) {
    EXPECT_LE(at + size, all.size());
    std::memcpy(to, all.data() + at, size);
    at += size;
  };
  while (at < all.size() && !testing::Test::HasFailure()) {
    uint32_t header[2];
    take(header, sizeof(header));
    Format format = formatFromNumber(header[0]).value();
    FormatInfo info = formatInfo(format);
    Vectors &v = result[format];
    v.bytes.resize(size_t(header[1]) * info.blockBytes);
    v.values.resize(size_t(header[1]) * info.blockElements);
    take(v.bytes.data(), v.bytes.size());
    take(v.values.data(), v.values.size() * sizeof(float));
  }
  return result;
}

class DequantTest : public testing::TestWithParam<Format> {};

TEST_P(DequantTest, EqualsIndependentReader) {
  std::map<Format, Vectors> all = readVectors();
  auto found = all.find(GetParam());
  ASSERT_NE(found, all.end()) << "no vectors: extend make_dequant_vectors.py";
  const Vectors &v = found->second;
  ASSERT_GE(v.values.size(), 384u);
  std::vector<float> got(v.values.size());
  ASSERT_TRUE(dequantizeRow(GetParam(), v.bytes.data(), int64_t(got.size()),
                            got.data()));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]),
              std::bit_cast<uint32_t>(v.values[i]))
        << "element " << i << ": got " << got[i] << ", expected "
        << v.values[i];
}

constexpr Format formats[] = {
#define MOE_FORMAT(name, id, elements, bytes) Format::name,
#include "kernels/quant/Formats.def"
};

INSTANTIATE_TEST_SUITE_P(Formats, DequantTest, testing::ValuesIn(formats),
                         [](const auto &info) {
                           return std::string(formatInfo(info.param).name);
                         });

std::vector<char> contentsOf(const std::string &name) {
  std::ifstream file(std::string(MOE_DEQUANT_GOLDEN) + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class GoldenDequantTest : public testing::TestWithParam<Format> {};

TEST_P(GoldenDequantTest, EqualsTwoDecoders) {
  FormatInfo info = formatInfo(GetParam());
  std::vector<char> blocks = contentsOf(std::string(info.name) + ".bin");
  std::vector<char> npy = contentsOf(std::string(info.name) + ".npy");
  size_t count = blocks.size() / info.blockBytes * info.blockElements;
  ASSERT_GE(count, 4096u);
  // The numbers follow a header.
  ASSERT_GE(npy.size(), count * sizeof(float));
  std::vector<float> got(count), want(count);
  std::memcpy(want.data(), npy.data() + npy.size() - count * sizeof(float),
              count * sizeof(float));
  ASSERT_TRUE(dequantizeRow(GetParam(),
                            reinterpret_cast<const uint8_t *>(blocks.data()),
                            int64_t(count), got.data()));
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "element " << i << ": got " << got[i] << ", expected " << want[i];
}

INSTANTIATE_TEST_SUITE_P(
    Formats, GoldenDequantTest,
    testing::Values(Format::IQ1_S, Format::IQ1_M, Format::IQ2_XXS,
                    Format::IQ2_XS, Format::IQ2_S, Format::IQ3_XXS,
                    Format::IQ3_S, Format::IQ4_NL, Format::IQ4_XS,
                    Format::MXFP4, Format::NVFP4, Format::TQ1_0, Format::TQ2_0),
    [](const auto &info) { return std::string(formatInfo(info.param).name); });

TEST(DequantRow, RefusesFormatsKnownBySizeOnly) {
  uint8_t row[64] = {};
  float out[32] = {5.0f};
  EXPECT_FALSE(dequantizeRow(Format::Q8_1, row, 32, out));
  EXPECT_EQ(out[0], 5.0f);
}

TEST(Half, EveryF16ReturnsToItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToFloat(uint16_t(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(value)))) << bits;
    else
      EXPECT_EQ(floatToF16(value), bits);
  }
}

TEST(Half, F16RoundsToNearestEven) {
  // For each pair of neighbours: below, at and above the middle.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    double low = f16ToFloat(uint16_t(bits));
    double high = f16ToFloat(uint16_t(bits + 1));
    float middle = float((low + high) / 2);
    EXPECT_EQ(floatToF16(middle), bits + (bits & 1)) << bits;
    EXPECT_EQ(floatToF16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(floatToF16(std::nextafter(middle, INFINITY)), bits + 1);
    EXPECT_EQ(floatToF16(-middle), 0x8000 + bits + (bits & 1));
  }
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(1e30f), 0x7c00);
  EXPECT_EQ(floatToF16(-1e30f), 0xfc00);
}

TEST(Half, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(floatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(floatToBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(floatToBf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(floatToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(NAN))));
  // A NaN whose payload is in the lower half only.
  EXPECT_TRUE(
      std::isnan(bf16ToFloat(floatToBf16(std::bit_cast<float>(0x7f800001u)))));
}

} // namespace
