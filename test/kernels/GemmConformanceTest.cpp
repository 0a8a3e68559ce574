//===- GemmConformanceTest.cpp - Compares every gemm with float64 ---------===//
//
// Runs each line of Gemms.def that this CPU can run on odd shapes with random
// inputs. Expected values are float64 products of the dequantised weights and
// the activations as encoded, so that only the kernel's own rounding is left
// for the tolerance.
//
//===----------------------------------------------------------------------===//

#include "kernels/Registry.h"
#include "kernels/quant/Rows16.h"
#include "test/kernels/GemmProblem.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

using namespace moek;
using namespace moek::test;

namespace moek {
/// Prints a parameter for GoogleTest.
void PrintTo(const GemmInfo &info, std::ostream *os) { *os << info.name; }
} // namespace moek

namespace {

constexpr float kPoison = -12345.678f;

/// Output rows with gaps between them, surrounded by poison.
class Output {
public:
  Output(int64_t rows, int64_t tokens)
      : rows_(rows), tokens_(tokens), stride_(rows + 5),
        values_(size_t(kMargin + stride_ * tokens), kPoison) {
    for (int64_t t = 0; t < tokens; ++t)
      std::fill_n(&at(0, t), rows, std::numeric_limits<float>::quiet_NaN());
  }
  float *data() { return values_.data() + kMargin; }
  int64_t stride() const { return stride_; }
  float &at(int64_t row, int64_t token) {
    return data()[token * stride_ + row];
  }
  void expectPoisonIntact() {
    for (int64_t i = 0; i < kMargin; ++i)
      ASSERT_EQ(values_[size_t(i)], kPoison) << "before the output";
    for (int64_t t = 0; t < tokens_; ++t)
      for (int64_t r = rows_; r < stride_; ++r)
        ASSERT_EQ(at(r, t), kPoison)
            << "row " << r << " of " << rows_ << ", token " << t;
  }

private:
  static constexpr int64_t kMargin = 16;
  int64_t rows_, tokens_, stride_;
  std::vector<float> values_;
};

/// Makes uninitialised stack memory of a kernel NaN in every float format.
[[gnu::noinline]] void poisonStack() {
  uint8_t bytes[256 * 1024]; // More stack than any kernel uses.
  std::memset(bytes, 0xff, sizeof(bytes));
  __asm__ volatile("" : : "r"(bytes) : "memory");
}

class GemmTest : public testing::TestWithParam<GemmInfo> {
protected:
  void SetUp() override {
    gemm = resolveGemm(GetParam().name);
    ASSERT_NE(gemm, nullptr);
  }

  void run(GemmProblem &problem, int64_t rows, int64_t tokens, int64_t cols,
           Output &out) {
    poisonStack();
    gemm(problem.weights(), problem.stride(), rows, problem.activations(),
         tokens, cols, out.data(), out.stride());
  }

  /// Tests one shape; returns the worst error as a fraction of the tolerance.
  double check(int64_t rows, int64_t tokens, int64_t cols, uint32_t seed) {
    SCOPED_TRACE(testing::Message() << "rows " << rows << ", tokens " << tokens
                                    << ", cols " << cols << ", seed " << seed);
    GemmProblem problem(GetParam(), rows, tokens, cols, seed);
    Output out(rows, tokens);
    run(problem, rows, tokens, cols, out);
    out.expectPoisonIntact();
    double worst = 0;
    int64_t worstRow = 0, worstToken = 0;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r) {
        GemmProblem::Expected want = problem.expected(r, t);
        double error = std::abs(double(out.at(r, t)) - want.value);
        // The comparison makes NaN the worst.
        double ratio = error <= 1e300 ? error / want.tolerance : 1e300;
        if (ratio > worst) {
          worst = ratio;
          worstRow = r;
          worstToken = t;
        }
      }
    GemmProblem::Expected want = problem.expected(worstRow, worstToken);
    EXPECT_LE(worst, 1.0) << "worst at row " << worstRow << ", token "
                          << worstToken << ": got "
                          << out.at(worstRow, worstToken) << ", expected "
                          << want.value << " +- " << want.tolerance;
    return worst;
  }

  /// Returns column counts: one block, and enough for the tails of every
  /// tiling.
  std::vector<int64_t> columnCounts() const {
    int64_t block = formatInfo(GetParam().format).blockElements;
    if (block == 256)
      return {256, 512, 768, 2304};
    if (block == 64)
      return {64, 128, 192, 832};
    if (block == 32)
      return {32, 64, 96, 416, 480, 512, 1408};
    std::vector<int64_t> counts = {1, 2, 7, 16, 31, 33, 34, 100, 256, 410};
    if (GetParam().layout == Layout::Rows16)
      std::erase_if(counts, [](int64_t cols) {
        return !hasRows16(GetParam().format, cols);
      });
    return counts;
  }

  GemmFn gemm = nullptr;
};

TEST_P(GemmTest, EqualsFloat64OnOddShapes) {
  uint32_t seed = 1;
  double worst = 0;
  for (int64_t cols : columnCounts())
    for (int64_t rows : {1, 3, 17, 64})
      for (int64_t tokens : {1, 2, 5, 8, 33, 64}) {
        // Testing the most columns once per token count is enough.
        if (cols > 1000 && rows == 64)
          continue;
        worst = std::max(worst, check(rows, tokens, cols, seed++));
        if (HasFailure())
          return;
      }
  RecordProperty("worst_error_over_tolerance", std::to_string(worst));
}

TEST_P(GemmTest, MoreThanATile) {
  int64_t cols = columnCounts()[0];
  check(5, 131, cols, 99);
  check(20, 70, cols, 100);
  // Panels take 64 rows by 256 tokens at a time.
  check(83, 260, cols, 101);
}

TEST_P(GemmTest, LongRows) {
  // Panels of this size may be multiplied two at a time: tests a single panel,
  // one after a pair, and a pair of which the second is partial.
  for (int64_t rows : {16, 33, 57})
    for (int64_t tokens : {1, 2, 4})
      check(rows, tokens, 8192, uint32_t(rows + tokens));
}

TEST_P(GemmTest, NanStaysWithItsToken) {
  int64_t cols = columnCounts().back(), rows = 19;
  for (int64_t tokens : {3, 9, 21}) {
    GemmProblem problem(GetParam(), rows, tokens, cols, 7);
    int64_t broken = tokens - 2;
    // The encoder gives a block with a NaN a NaN scale.
    uint8_t *row = problem.activation(broken);
    auto *floats = reinterpret_cast<float *>(
        isA8(GetParam().activation) ? row + a8ScaleOffset(cols) : row);
    int64_t last = cols / (isA8(GetParam().activation) ? kA8Block : 1) - 1;
    int64_t first = GetParam().activation == Encoding::A8K
                        ? last * kA8Block / kA8KBlock * kA8KBlock / kA8Block
                        : last;
    // All bits set: rounding this NaN to BF16 by an addition would give zero.
    std::memset(floats + first, 0xff, size_t(last + 1 - first) * sizeof(float));
    Output out(rows, tokens);
    run(problem, rows, tokens, cols, out);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = 0; r < rows; ++r) {
        if (t == broken) {
          ASSERT_TRUE(std::isnan(out.at(r, t))) << "row " << r;
          continue;
        }
        GemmProblem::Expected want = problem.expected(r, t);
        ASSERT_NEAR(out.at(r, t), want.value, want.tolerance)
            << "row " << r << ", token " << t;
      }
  }
}

TEST_P(GemmTest, NanStaysWithItsRow) {
  int64_t cols = columnCounts().back(), rows = 19, broken = 17;
  int64_t last = cols / formatInfo(GetParam().format).blockElements - 1;
  int scales = GemmProblem::scaleCount(GetParam().format);
  for (int64_t tokens : {1, 4, 9, 21})
    for (int64_t block : {int64_t(0), last / 2, last})
      for (int scale = 0; scale < scales; ++scale)
        for (bool infinite : {false, true}) {
          GemmProblem problem(GetParam(), rows, tokens, cols, 8);
          problem.breakRow(broken, block, scale, infinite);
          Output out(rows, tokens);
          run(problem, rows, tokens, cols, out);
          for (int64_t t = 0; t < tokens; ++t)
            for (int64_t r = 0; r < rows; ++r) {
              SCOPED_TRACE(testing::Message()
                           << "row " << r << ", token " << t << ", block "
                           << block << ", scale " << scale
                           << (infinite ? ", infinite" : ""));
              GemmProblem::Expected want = problem.expected(r, t);
              if (r == broken)
                ASSERT_FALSE(std::isfinite(out.at(r, t)));
              else
                ASSERT_NEAR(out.at(r, t), want.value, want.tolerance);
            }
        }
}

/// A broken row must give NaN even for activations of zero.
TEST_P(GemmTest, ZerosFindBrokenRows) {
  int64_t cols = columnCounts().back(), rows = 19, broken = 17;
  int64_t last = cols / formatInfo(GetParam().format).blockElements - 1;
  for (int scale = 0; scale < GemmProblem::scaleCount(GetParam().format);
       ++scale)
    for (bool infinite : {false, true}) {
      GemmProblem problem(GetParam(), rows, 1, cols, 9);
      problem.breakRow(broken, last / 2, scale, infinite);
      std::memset(problem.activation(0), 0,
                  size_t(encodedRowBytes(GetParam().activation, cols)));
      Output out(rows, 1);
      run(problem, rows, 1, cols, out);
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(out.at(r, 0) == 0, r != broken)
            << "row " << r << ", scale " << scale;
    }
}

/// The row numbers at which Gemms.def says another method begins must be true.
TEST_P(GemmTest, RowRangesMatchTheTable) {
  const GemmInfo &info = GetParam();
  if (info.panelTokens == kNever)
    GTEST_SKIP() << "multiplies any number of rows alike";
  int64_t rows = 32, cols = 1024, tokens = info.panelTokens;
  GemmProblem problem(info, rows, tokens, cols, 13);
  Output fewer(rows, tokens), all(rows, tokens), other(rows, tokens);
  run(problem, rows, tokens - 1, cols, fewer);
  run(problem, rows, tokens, cols, all);
  // Fewer rows are left to a gemm of a lesser instruction set, or to the method
  // for a single row.
  GemmFn lesser = nullptr;
  if (info.minTokens > 1)
    for (const GemmInfo &each : gemmTable())
      if (each.format == info.format && each.layout == info.layout &&
          each.isa == Isa::Avx512)
        lesser = resolveGemm(each.name);
  for (int64_t t = 0; t < tokens - 1; ++t)
    if (!lesser)
      gemm(problem.weights(), problem.stride(), rows, problem.activations() + t,
           1, cols, &other.at(0, t), other.stride());
  if (lesser)
    lesser(problem.weights(), problem.stride(), rows, problem.activations(),
           tokens - 1, cols, other.data(), other.stride());
  bool differs = false;
  for (int64_t t = 0; t < tokens - 1; ++t)
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_EQ(fewer.at(r, t), other.at(r, t))
          << "row " << r << ", token " << t;
      differs |= all.at(r, t) != other.at(r, t);
    }
  // In the code for eight lanes, both methods for interleaved rows add in the
  // same order.
  bool isAlike = info.layout == Layout::Rows16 &&
                 (info.isa == Isa::Avx2 || info.isa == Isa::AvxVnni ||
                  info.isa == Isa::Neon || info.isa == Isa::NeonI8mm);
  EXPECT_EQ(differs, !isAlike) << "from " << tokens << " rows on";
}

TEST_P(GemmTest, EachWeightIsExactAlone) {
  // In a sum of many weights, a kernel's errors could hide within the tolerance
  // of worst-case rounding.
  int64_t rows = 32, cols = columnCounts()[0] * 8;
  GemmProblem problem(GetParam(), rows, cols, cols, 21);
  for (int64_t t = 0; t < cols; ++t)
    problem.makeUnit(t, t, t % 2 ? 127 : -127);
  Output out(rows, cols);
  run(problem, rows, cols, cols, out);
  double worst = 0;
  for (int64_t t = 0; t < cols; ++t)
    for (int64_t r = 0; r < rows; ++r) {
      GemmProblem::Expected want = problem.expected(r, t);
      double error = std::abs(double(out.at(r, t)) - want.value);
      ASSERT_LE(error, want.tolerance) << "row " << r << ", column " << t;
      worst = std::max(worst, error / want.tolerance);
    }
  RecordProperty("worst_error_over_tolerance", std::to_string(worst));
}

TEST_P(GemmTest, ResultDoesNotDependOnOtherTokensOrRows) {
  // The result of a token may depend on the number of rows and tokens that are
  // computed with it, but only through rounding.
  int64_t cols = columnCounts().back();
  GemmProblem problem(GetParam(), 40, 20, cols, 11);
  Output all(40, 20), one(8, 1);
  run(problem, 40, 20, cols, all);
  gemm(problem.weights() + 32 * problem.stride(), problem.stride(), 8,
       problem.activations() + 19, 1, cols, one.data(), one.stride());
  GemmProblem::Expected want = problem.expected(39, 19);
  EXPECT_NEAR(all.at(39, 19), want.value, want.tolerance);
  EXPECT_NEAR(one.at(7, 0), want.value, want.tolerance);
}

INSTANTIATE_TEST_SUITE_P(KernelsDef, GemmTest, testing::ValuesIn(testedGemms()),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
