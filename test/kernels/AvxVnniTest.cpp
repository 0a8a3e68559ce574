//===- AvxVnniTest.cpp - AVX-VNNI gemms beside those of AVX2 --------------===//
//
// Both are compiled from one source text. Their sums of products are exact, so
// their results have the same bits; and with AVX-VNNI all products of codes are
// vpdpbusd, which this counts on the software CPU, as it executes no other
// instruction of these kernels itself.
//
//===----------------------------------------------------------------------===//

#include "kernels/Registry.h"
#include "test/kernels/GemmProblem.h"
#ifdef MOE_HAS_SOFT_CPU
#include "test/softcpu/SoftCpu.h"
#endif

#include <cstring>
#include <gtest/gtest.h>
#include <ostream>

using namespace moek;
using namespace moek::test;

namespace moek {
void PrintTo(const GemmInfo &info, std::ostream *os) { *os << info.name; }
} // namespace moek

namespace {

std::vector<GemmInfo> vnniGemms() {
  std::vector<GemmInfo> all;
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.isa == Isa::AvxVnni)
      all.push_back(gemm);
  return all;
}

/// Returns the gemm of AVX2 for the same weights, or null.
const GemmInfo *twinOf(const GemmInfo &gemm) {
  for (const GemmInfo &each : gemmTable())
    if (each.isa == Isa::Avx2 && each.format == gemm.format &&
        each.layout == gemm.layout && each.activation == gemm.activation)
      return &each;
  return nullptr;
}

/// Sets all codes of a row of activations, so that its products are the largest
/// that there can be.
void setAll(uint8_t *row, int64_t cols, int8_t code) {
  std::memset(row, code, size_t(cols));
  auto *sums = reinterpret_cast<int16_t *>(row + a8SumOffset(cols));
  std::fill_n(sums, cols / 16, int16_t(16 * code));
}

class AvxVnniTest : public testing::TestWithParam<GemmInfo> {
protected:
  void SetUp() override {
    if (!hostSupports(Isa::AvxVnni))
      GTEST_SKIP() << "this CPU has no AVX-VNNI";
  }
};

TEST_P(AvxVnniTest, HasTheBitsOfAvx2) {
  const GemmInfo &gemm = GetParam(), *twin = twinOf(gemm);
  ASSERT_NE(twin, nullptr);
  ASSERT_EQ(twin->panelTokens, gemm.panelTokens);
  int64_t block = formatInfo(gemm.format).blockElements;
  uint32_t seed = 1;
  // Columns for streams, for panels of 512 columns and for the rest after them.
  for (int64_t cols : {block, 768 / block * block, int64_t(2304)})
    for (int64_t rows : {1, 19, 40})
      for (int64_t tokens : {1, 2, 3, 4, 7, 8, 9, 13, 30}) {
        GemmProblem problem(gemm, rows, tokens, cols, seed++);
        setAll(problem.activation(0), cols, 127);
        setAll(problem.activation(tokens - 1), cols, -127);
        std::vector<float> out(size_t(rows * tokens)), other(out);
        for (auto [name, to] :
             {std::pair(gemm.name, &out), std::pair(twin->name, &other)})
          resolveGemm(name)(problem.weights(), problem.stride(), rows,
                            problem.activations(), tokens, cols, to->data(),
                            rows);
        ASSERT_EQ(
            std::memcmp(out.data(), other.data(), out.size() * sizeof(float)),
            0)
            << rows << " rows, " << tokens << " tokens, " << cols << " columns";
      }
}

#ifdef MOE_HAS_SOFT_CPU
TEST_P(AvxVnniTest, EveryProductIsADotInstruction) {
  if (!SoftCpu::isAvailable())
    GTEST_SKIP() << "needs AVX2 and writable, executable memory";
  const GemmInfo &gemm = GetParam();
  constexpr int64_t kRows = 32, kCols = 1024;
  for (int64_t tokens : {1, 4, 20}) {
    GemmProblem problem(gemm, kRows, tokens, kCols, 5);
    std::vector<float> out(size_t(kRows * tokens));
    uint64_t before = SoftCpu::executedInSoftware();
    SoftCpu::call(resolveGemm(gemm.name), problem.weights(), problem.stride(),
                  kRows, problem.activations(), tokens, kCols, out.data(),
                  kRows);
    uint64_t dots = SoftCpu::executedInSoftware() - before;
    // One has 32 products. The activations' own sums of rows as in the file,
    // which two rows share, are the rest.
    auto least = uint64_t(kRows * kCols * tokens / 32);
    EXPECT_GE(dots, least) << tokens;
    EXPECT_LE(dots,
              gemm.layout == Layout::Gguf && tokens < 5 ? 2 * least : least)
        << tokens;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(GemmsDef, AvxVnniTest, testing::ValuesIn(vnniGemms()),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
