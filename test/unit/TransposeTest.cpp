//===- TransposeTest.cpp - Matrices of a weight transposed ----------------===//

#include "compiler/Pack/Transpose.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Half.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using moec::Transpose;
using moek::Format;
using moert::StatusCode;

namespace {

/// A weight of `outer` matrices whose rows are followed by `gap` bytes, like
/// the rows of attn_kv_b, where W_UV follows W_UK.
struct Weight {
  Weight(int64_t outer, int64_t rows, int64_t cols, Format format,
         int64_t gapRows = 0)
      : view{nullptr, outer, rows, cols, 0, 0, format} {
    view.rowStride = int64_t(moek::rowBytes(format, uint64_t(cols)));
    view.outerStride = (rows + gapRows) * view.rowStride;
    bytes.resize(size_t(outer * view.outerStride));
    view.data = bytes.data();
  }
  uint8_t *row(int64_t matrix, int64_t r) {
    return bytes.data() + matrix * view.outerStride + r * view.rowStride;
  }

  moek::WeightView view;
  std::vector<uint8_t> bytes;
};

float number(int64_t matrix, int64_t r, int64_t c) {
  return float(std::sin(0.4 + 1.7 * double(c) + 3.1 * double(r) +
                        17.3 * double(matrix)));
}

Weight floats(int64_t outer, int64_t rows, int64_t cols, int64_t gapRows) {
  Weight weight(outer, rows, cols, Format::F32, gapRows);
  for (int64_t m = 0; m < outer; ++m)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        float value = number(m, r, c);
        std::memcpy(weight.row(m, r) + 4 * c, &value, 4);
      }
  return weight;
}

/// Returns matrix `matrix` as floats, row by row.
std::vector<float> run(const Transpose &transpose, int64_t matrix) {
  EXPECT_TRUE(transpose.check().isOk()) << transpose.check().message();
  int64_t rows = transpose.from.cols, cols = transpose.from.rows;
  std::vector<uint8_t> bytes(size_t(rows * transpose.rowBytes()));
  moec::transposeRows(transpose, matrix, 0, rows, bytes.data());
  std::vector<float> values(size_t(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    EXPECT_TRUE(moek::dequantizeRow(transpose.format,
                                    bytes.data() + r * transpose.rowBytes(),
                                    cols, values.data() + r * cols));
  return values;
}

TEST(Transpose, SwapsRowsAndColumnsOfEachMatrix) {
  // Odd sizes, several heads, and other rows between them.
  Weight weight = floats(3, 5, 7, 2);
  for (int64_t m = 0; m < 3; ++m) {
    std::vector<float> values = run({weight.view, Format::F32}, m);
    for (int64_t r = 0; r < 7; ++r)
      for (int64_t c = 0; c < 5; ++c)
        EXPECT_EQ(values[size_t(r * 5 + c)], number(m, c, r))
            << m << " " << r << " " << c;
  }
}

TEST(Transpose, KeepsTheBitsOf16BitFloats) {
  for (Format format : {Format::F16, Format::BF16}) {
    Weight weight(2, 3, 5, format);
    for (size_t i = 0; i < weight.bytes.size(); ++i)
      weight.bytes[i] = uint8_t(i * 37 % 101);
    Transpose transpose{weight.view, format};
    std::vector<uint8_t> bytes(size_t(5 * transpose.rowBytes()));
    moec::transposeRows(transpose, 1, 0, 5, bytes.data());
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(std::memcmp(&bytes[size_t(6 * r + 2 * c)],
                              weight.row(1, c) + 2 * r, 2),
                  0)
            << r << " " << c;
  }
}

TEST(Transpose, BlocksOfTheResultAreColumns) {
  // 64 rows of two blocks of Q4_0; a column gives two blocks of Q8_0.
  Weight weight(2, 64, 64, Format::Q4_0);
  for (size_t i = 0; i < weight.bytes.size(); ++i)
    weight.bytes[i] = uint8_t(i * 37);
  for (int64_t m = 0; m < 2; ++m)
    for (int64_t r = 0; r < 64; ++r)
      for (int64_t block = 0; block < 2; ++block) {
        uint16_t d = moek::floatToF16(0.01f * float(1 + (r + m) % 5));
        std::memcpy(weight.row(m, r) + 18 * block, &d, sizeof d);
      }
  for (int64_t m = 0; m < 2; ++m) {
    std::vector<float> values = run({weight.view, Format::Q8_0}, m);
    std::vector<float> source(64);
    for (int64_t c = 0; c < 64; ++c) {
      ASSERT_TRUE(moek::dequantizeRow(Format::Q4_0, weight.row(m, c), 64,
                                      source.data()));
      for (int64_t r = 0; r < 64; ++r)
        // Q4_0 values reach 8 scales of at most 0.05. The error is half a step
        // of 0.4 / 127, and the scale's own rounding.
        EXPECT_NEAR(values[size_t(r * 64 + c)], source[size_t(r)],
                    0.4f * (0.5f / 127 + 0x1p-11f))
            << m << " " << r << " " << c;
    }
  }
}

TEST(Transpose, ComputesAnyRows) {
  Weight weight = floats(2, 32, 7, 0);
  Transpose transpose{weight.view, Format::Q8_0};
  auto rowBytes = size_t(transpose.rowBytes());
  std::vector<uint8_t> whole(7 * rowBytes);
  moec::transposeRows(transpose, 1, 0, 7, whole.data());
  for (int64_t first = 0; first < 7; ++first)
    for (int64_t count : {int64_t(1), 7 - first}) {
      std::vector<uint8_t> part(size_t(count) * rowBytes);
      moec::transposeRows(transpose, 1, first, count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(),
                             whole.begin() + first * int64_t(rowBytes)))
          << first << " " << count;
    }
}

TEST(Transpose, NanStaysInItsColumnsBlock) {
  Weight weight = floats(2, 96, 5, 0);
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(weight.row(1, 40) + 4 * 3, &nan, 4);
  for (float value : run({weight.view, Format::Q8_0}, 0))
    EXPECT_TRUE(std::isfinite(value));
  std::vector<float> values = run({weight.view, Format::Q8_0}, 1);
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < 96; ++c)
      EXPECT_EQ(std::isnan(values[size_t(r * 96 + c)]), r == 3 && c / 32 == 1)
          << r << " " << c;
}

TEST(Transpose, RefusesFormatsItCannotConvert) {
  Weight weight = floats(1, 32, 32, 0);
  weight.view.format = Format::Q8_K;
  Transpose unknown{weight.view, Format::Q8_0};
  EXPECT_EQ(unknown.check().code(), StatusCode::Unsupported);
  EXPECT_EQ(unknown.check().message(),
            "cannot transpose weights of format Q8_K");
  weight.view.format = Format::F32;
  EXPECT_EQ(Transpose({weight.view, Format::Q4_K}).check().message(),
            "cannot write weights in format Q4_K");
}

} // namespace
