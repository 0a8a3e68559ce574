//===- FoldQueryTest.cpp - W_UK multiplied into W_Q -----------------------===//

#include "compiler/Pack/FoldQuery.h"

#include "kernels/quant/Half.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using moec::FoldQuery;
using moert::StatusCode;

namespace {

constexpr int64_t kHeads = 3, kNope = 5, kRope = 2, kLatent = 4, kCols = 7;

/// Numbers without a pattern, so that a wrong index changes results.
std::vector<float> numbers(int64_t count, float seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = std::sin(seed + 1.7f * float(i));
  return values;
}

moek::WeightView view(const std::vector<float> &values, int64_t outer,
                      int64_t rows, int64_t cols) {
  return {reinterpret_cast<const uint8_t *>(values.data()),
          outer,
          rows,
          cols,
          rows * cols * 4,
          cols * 4,
          moek::Format::F32};
}

struct FoldQueryTest : testing::Test {
  std::vector<float> wq = numbers(kHeads * (kNope + kRope) * kCols, 0.1f);
  std::vector<float> wk = numbers(kHeads * kNope * kLatent, 0.7f);

  FoldQuery fold(bool transposed, moek::Format format) {
    return {view(wq, 1, kHeads * (kNope + kRope), kCols),
            transposed ? view(wk, kHeads, kLatent, kNope)
                       : view(wk, kHeads, kNope, kLatent),
            transposed,
            kHeads,
            kNope,
            kRope,
            kLatent,
            format};
  }

  /// Element [h][r][c] of the result by definition.
  double expected(bool transposed, int64_t h, int64_t r, int64_t c) {
    const float *q = &wq[h * (kNope + kRope) * kCols];
    if (r >= kLatent)
      return q[(kNope + r - kLatent) * kCols + c];
    const float *k = &wk[h * kNope * kLatent];
    double sum = 0;
    for (int64_t n = 0; n < kNope; ++n)
      sum += double(transposed ? k[r * kNope + n] : k[n * kLatent + r]) *
             q[n * kCols + c];
    return sum;
  }

  std::vector<uint8_t> run(const FoldQuery &fold) {
    EXPECT_TRUE(fold.check().isOk()) << fold.check().message();
    std::vector<uint8_t> bytes(size_t(fold.rows() * fold.rowBytes()));
    moec::foldRows(fold, 0, fold.rows(), bytes.data());
    return bytes;
  }
};

TEST_F(FoldQueryTest, IsTheProductOfEachHeadThenTheRopeRows) {
  for (bool transposed : {false, true}) {
    std::vector<uint8_t> bytes = run(fold(transposed, moek::Format::F32));
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    size_t i = 0;
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t r = 0; r < kLatent + kRope; ++r)
        for (int64_t c = 0; c < kCols; ++c)
          // The sum is in double and is rounded once.
          EXPECT_EQ(values[i++], float(expected(transposed, h, r, c)))
              << h << " " << r << " " << c << " " << transposed;
  }
}

TEST_F(FoldQueryTest, RoundsToBf16Once) {
  std::vector<uint8_t> bytes = run(fold(false, moek::Format::BF16));
  size_t i = 0;
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t r = 0; r < kLatent + kRope; ++r)
      for (int64_t c = 0; c < kCols; ++c, i += 2)
        EXPECT_EQ(uint16_t(bytes[i] | bytes[i + 1] << 8),
                  moek::floatToBf16(float(expected(false, h, r, c))));
}

TEST_F(FoldQueryTest, ReadsQuantisedRows) {
  FoldQuery half = fold(false, moek::Format::F32);
  std::vector<uint16_t> bits;
  for (float &value : wk) {
    bits.push_back(moek::floatToF16(value));
    value = moek::f16ToFloat(bits.back());
  }
  half.wk = {reinterpret_cast<const uint8_t *>(bits.data()),
             kHeads,
             kNope,
             kLatent,
             kNope * kLatent * 2,
             kLatent * 2,
             moek::Format::F16};
  EXPECT_EQ(run(half), run(fold(false, moek::Format::F32)));
}

TEST_F(FoldQueryTest, ComputesAnyRows) {
  FoldQuery query = fold(true, moek::Format::F32);
  std::vector<uint8_t> whole = run(query);
  auto rowBytes = size_t(query.rowBytes());
  for (int64_t first = 0; first < query.rows(); ++first)
    for (int64_t count : {int64_t(1), query.rows() - first}) {
      std::vector<uint8_t> part(size_t(count) * rowBytes);
      moec::foldRows(query, first, count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(),
                             whole.begin() + first * query.rowBytes()))
          << first << " " << count;
    }
}

TEST_F(FoldQueryTest, RefusesFormatsWithoutValues) {
  FoldQuery unknown = fold(false, moek::Format::F32);
  unknown.wq.format = moek::Format::Q8_K;
  EXPECT_EQ(unknown.check().code(), StatusCode::Unsupported);
  EXPECT_EQ(unknown.check().message(), "cannot fold weights of format Q8_K");
  EXPECT_EQ(fold(false, moek::Format::Q8_0).check().message(),
            "folded weights are F32 or BF16, not Q8_0");
}

} // namespace
