//===- AmxShapesTest.cpp - How well expert shapes fill the tiles ----------===//
//
// Runs ExpertsLinear with AMX gemms in software and counts which fraction of
// the multiply-accumulates in the executed tile products belongs to the
// requested product, and how many tiles are loaded per product.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "kernels/Registry.h"
#include "kernels/Scratch.h"
#include "test/amx/AmxExecutor.h"
#include "test/kernels/GemmProblem.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

struct Shape {
  const char *name;
  int64_t rows, cols;
  const char *gemm; ///< Gemms of the formats whose block divides `cols`.
  /// BF16 kernels multiply the two halves of an activation separately.
  int parts = 1;
};
constexpr Shape kShapes[] = {
    {"V2-Lite gate, up", 1408, 2048, "gemm_q4_k_rows16_amx"},
    {"V2-Lite down", 2048, 1408, "gemm_q5_0_rows16_amx"},
    {"V3 gate, up", 2048, 7168, "gemm_q4_k_rows16_amx"},
    {"V3 down", 7168, 2048, "gemm_q6_k_rows16_amx"},
    {"V2-Lite in BF16", 1408, 2048, "gemm_bf16_rows16_amx", 2},
    {"V3 in BF16", 2048, 7168, "gemm_bf16_rows16_amx", 2}};

struct Figures {
  uint64_t products, loads;
  double useful; ///< Fraction of the products' capacity that is useful.
};

/// Runs one expert that `tokens` slots in random order have chosen. Kernels
/// process 64 rows at a time in the same way, so 64 rows represent all.
Figures runExpert(const Shape &shape, int64_t tokens) {
  constexpr int64_t kRows = 64;
  EXPECT_EQ(shape.rows % kRowTile, 0);
  const GemmInfo &gemm = *findGemm(shape.gemm);
  GemmProblem problem(gemm, kRows, tokens, shape.cols, 5);
  std::vector<int32_t> offsets{0, int32_t(tokens)}, slots(size_t(tokens), 0);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), std::mt19937(1));
  // The problem's activations follow each other, the last token first.
  int64_t stride = encodedRowBytes(gemm.activation, shape.cols);
  std::vector<float> out(size_t(tokens * kRows));
  ExpertsLinearArgs args{};
  args.act = problem.activations()[tokens - 1];
  args.actStride = stride;
  args.w = {problem.weights(),
            1,
            kRows,
            shape.cols,
            kRows * problem.stride(),
            problem.stride(),
            gemm.format};
  args.gemm = resolveGemm(gemm.name);
  args.offsets = offsets.data();
  args.slots = slots.data();
  args.out = out.data();
  args.outStride = kRows;
  args.topK = 1;
  auto *scratch = static_cast<std::byte *>(
      std::aligned_alloc(64, size_t(gemmScratchBytes())));
  AmxExecutor::resetCounts();
  resolveKernel("experts_linear_avx512")(&args, Step{int32_t(tokens), 0},
                                         Worker{0, 1, scratch});
  std::free(scratch);
  TileCounts counts = AmxExecutor::counts();
  for (int64_t t = 0; t < tokens; t += 7)
    for (int64_t r = 0; r < kRows; r += 13) {
      GemmProblem::Expected want = problem.expected(r, t);
      EXPECT_NEAR(out[size_t((tokens - 1 - t) * kRows + r)], want.value,
                  want.tolerance);
    }
  return {counts.products(), counts.loads(),
          double(kRows * tokens * shape.cols * shape.parts) /
              std::max(double(counts.capacity), 1.0)};
}

TEST(AmxShapesTest, ExpertsFillTheTiles) {
  if (!hostSupports(Isa::Amx) || AmxExecutor::isNative())
    GTEST_SKIP()
        << "tile instructions are counted only when executed in software: not "
           "on a CPU with AMX, and without the software CPU not on one "
           "without AVX-512";
  std::cout << "expert            rows  products/64 rows  useful  loads per "
               "product\n";
  for (const Shape &shape : kShapes)
    for (int64_t tokens : {1, 8, 32, 48, 128, 512}) {
      Figures figures = runExpert(shape, tokens);
      std::cout << std::left << std::setw(16) << shape.name << std::right
                << std::setw(6) << tokens << std::setw(18) << figures.products;
      if (figures.products == 0) {
        std::cout << "  by AVX-512: fewer tokens than pay for tiles\n";
        EXPECT_LT(tokens, 32);
        continue;
      }
      double loads = double(figures.loads) / double(figures.products);
      std::cout << std::fixed << std::setprecision(1) << std::setw(7)
                << 100 * figures.useful << "%" << std::setprecision(2)
                << std::setw(10) << loads << "\n";
      if (tokens >= 32) {
        EXPECT_GE(figures.useful, 0.85);
        // 2 x 2 tiles load one tile per product, 1 x 2 tiles one and a half.
        EXPECT_LE(loads, 1.25);
      }
    }
}

} // namespace
