// Predicted seconds of instructions on an artificial machine: exact sums.
#include "compiler/Machine/CostModel/CostModel.h"

#include "compiler/Machine/CostModel/Memories.h"
#include "compiler/Machine/CostModel/MemoryNodes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using moe::InstructionWork;
using moe::Product;
using moec::DeviceDesc;
using moec::Situation;
using moek::OpCode;

namespace {

class CostModelTest : public testing::Test {
protected:
  CostModelTest() {
    context_.loadDialect<moe::MoeDialect>();
    device_.isa = moek::Isa::Avx512;
    device_.read = {100e9, 0.9, {}};
    device_.int8 = {10e12, 0.5, {}};
    device_.float32 = {2e12, 0.25, {}};
    device_.l3Bytes = 1000;
  }

  /// A weight in Q8_0: 34 bytes for 32 elements.
  Value weight(ArrayRef<int64_t> shape) {
    OpBuilder builder(module_->getBodyRegion());
    auto type = RankedTensorType::get(shape, moe::Q8_0Type::get(&context_));
    return builder.create<moe::WeightRefOp>(UnknownLoc::get(&context_), type,
                                            "w");
  }
  InstructionWork multiplying(double rows, double matrices = 1) {
    InstructionWork work;
    work.products = {Product{weight({8, 16, 64}), matrices, rows}};
    return work;
  }
  double seconds(OpCode op, const InstructionWork &work,
                 std::string_view driver, Situation situation = {},
                 ArrayRef<std::string_view> gemmNames = {}) {
    SmallVector<const moek::GemmInfo *> gemms;
    for (std::string_view name : gemmNames)
      gemms.push_back(moek::findGemm(name));
    return moec::instructionSeconds(op, work, {moek::findKernel(driver), gemms},
                                    situation, device_);
  }
  double linear(double rows, bool cached = false) {
    return seconds(OpCode::Linear, multiplying(rows), "linear_avx512",
                   {.weightsInCache = cached}, {"gemm_q8_0_avx512"});
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_ = ModuleOp::create(UnknownLoc::get(&context_));
  DeviceDesc device_;
  /// The size of one of the eight matrices.
  static constexpr double kElements = 16 * 64, kBytes = kElements / 32 * 34;
};

TEST_F(CostModelTest, GemmRatesAreInterpolatedBetweenMeasuredRows) {
  device_.kernels = {
      {"gemm_q8_0_avx512", "", {1, 5, 13}, {10, 5, 2}, {20, 5, 2}}};
  EXPECT_DOUBLE_EQ(linear(1), kBytes / 10);
  EXPECT_DOUBLE_EQ(linear(5), kBytes / 5);
  // Half way between 1/5 and 1/2 of a second per byte.
  EXPECT_DOUBLE_EQ(linear(9), kBytes * (0.2 + 0.5) / 2);
  // Beyond the last size, time grows at the same rate.
  EXPECT_DOUBLE_EQ(linear(21), kBytes * (0.5 + 0.3));
  // Fewer rows than the first size are no faster.
  EXPECT_DOUBLE_EQ(linear(0.5), kBytes / 10);
  EXPECT_DOUBLE_EQ(linear(1, /*cached=*/true), kBytes / 20);
  EXPECT_DOUBLE_EQ(linear(5, /*cached=*/true), kBytes / 5);
}

TEST_F(CostModelTest, NoGemmReadsFasterThanMemoryIs) {
  device_.kernels = {{"gemm_q8_0_avx512", "", {1, 5}, {10, 5}, {20, 5}}};
  device_.read = {8, 0.9, {}};
  EXPECT_DOUBLE_EQ(linear(1), kBytes / 8);
  EXPECT_DOUBLE_EQ(linear(1, /*cached=*/true), kBytes / 20);
  EXPECT_DOUBLE_EQ(linear(5), kBytes / 5);
}

TEST_F(CostModelTest, ReadingHidesUnpackingOnlyInPart) {
  device_.read = {1e9, 0.9, {}};
  device_.unpack = {2e9, 0.5, {}};
  EXPECT_DOUBLE_EQ(linear(1), std::hypot(kBytes / 9e8, kElements / 1e9));
  // Weights are unpacked once for many rows.
  EXPECT_DOUBLE_EQ(linear(100), linear(1));
  device_.int8 = {1e9, 0.5, {}};
  EXPECT_DOUBLE_EQ(linear(100), 2 * 100 * kElements / 5e8);
}

// A GPU's product takes the time of a call and then that of its bytes; gate and
// up are one call.
TEST_F(CostModelTest, CallsOfAGpuTakeTimeWhateverTheirWeights) {
  device_.isa = moek::Isa::Cuda;
  device_.kind = moec::DeviceKind::Cuda;
  device_.kernelBasis = moec::Basis::Simulated;
  device_.kernels = {{"gemm_q8_0_rows16_cuda", "", {1}, {1e10}, {}},
                     {"gemm_q8_0_rows16_cuda", "call", {1}, {1e5}, {}}};
  InstructionWork work = multiplying(1);
  EXPECT_DOUBLE_EQ(seconds(OpCode::Linear, work, "linear_cuda", {},
                           {"gemm_q8_0_rows16_cuda"}),
                   1e-5 + kBytes / 1e10);
  work.products.push_back(work.products.front());
  EXPECT_DOUBLE_EQ(seconds(OpCode::GateUp, work, "gate_up_cuda", {},
                           {"gemm_q8_0_rows16_cuda", "gemm_q8_0_rows16_cuda"}),
                   1e-5 + 2 * kBytes / 1e10);
}

// No cache is in the way of a clock, so that its rates are not bounded by an
// assumed efficiency of memory.
TEST_F(CostModelTest, SimulatedRatesMayExceedTheAssumedEfficiency) {
  device_.isa = moek::Isa::Cuda;
  device_.kind = moec::DeviceKind::Cuda;
  device_.kernelBasis = moec::Basis::Simulated;
  device_.read = {1e9, 0.5, {}};
  device_.kernels = {{"gemm_q8_0_rows16_cuda", "", {1}, {2e9}, {}}};
  EXPECT_DOUBLE_EQ(seconds(OpCode::Linear, multiplying(1), "linear_cuda", {},
                           {"gemm_q8_0_rows16_cuda"}),
                   kBytes / 2e9);
}

// Experts of a prompt are one launch of many matrices.
TEST_F(CostModelTest, ExpertsOfAPromptHaveARateOfTheirOwn) {
  device_.isa = moek::Isa::Cuda;
  device_.kind = moec::DeviceKind::Cuda;
  device_.kernelBasis = moec::Basis::Simulated;
  device_.kernels = {{"gemm_q8_0_rows16_cuda", "", {1}, {1e10}, {}},
                     {"gemm_q8_0_rows16_cuda", "experts", {1}, {4e10}, {}}};
  auto experts = [&](int64_t tokens) {
    InstructionWork work = multiplying(double(tokens), 8);
    work.choices = {tokens, 8, 1, {}};
    return seconds(OpCode::ExpertsLinear, work, "experts_linear_cuda", {},
                   {"gemm_q8_0_rows16_cuda"});
  };
  EXPECT_DOUBLE_EQ(experts(8), 8 * kBytes / 1e10);
  EXPECT_DOUBLE_EQ(experts(9), 8 * kBytes / 4e10);
}

// A token's attention on a GPU is a call, and then the longer of the bytes of
// cache rows and the operations.
TEST_F(CostModelTest, AttentionOfATokenTakesItsCallAndBytesOrOperations) {
  device_.isa = moek::Isa::Cuda;
  device_.kind = moec::DeviceKind::Cuda;
  device_.kernelBasis = moec::Basis::Simulated;
  device_.kernels = {{"latent_attention_cuda", "f16 one", {1}, {1000}, {}},
                     {"latent_attention_cuda", "f16 one bytes", {1}, {10}, {}},
                     {"latent_attention_cuda", "f16 one call", {1}, {4}, {}}};
  InstructionWork work;
  work.kvType = moek::KvType::F16;
  work.kvBytes = 50;
  work.ops = 1000;
  auto latent = [&] {
    return seconds(OpCode::LatentAttention, work, "latent_attention_cuda",
                   {.tokens = 1, .cached = 99});
  };
  EXPECT_DOUBLE_EQ(latent(), 0.25 + 5);
  work.ops = 8000;
  EXPECT_DOUBLE_EQ(latent(), 0.25 + 8);
}

// Not every kernel has a simulated rate, so that others take their roofline.
TEST_F(CostModelTest, KernelsWithoutASimulatedRateTakeTheirRoofline) {
  device_.isa = moek::Isa::Cuda;
  device_.kind = moec::DeviceKind::Cuda;
  auto linearSeconds = [&] {
    return seconds(OpCode::Linear, multiplying(1), "linear_cuda", {},
                   {"gemm_q8_0_rows16_cuda"});
  };
  double roofline = linearSeconds();
  device_.kernelBasis = moec::Basis::Simulated;
  device_.kernels = {{"gemm_q4_k_rows16_cuda", "", {1}, {1e10}, {}}};
  EXPECT_DOUBLE_EQ(linearSeconds(), roofline);
}

TEST_F(CostModelTest, ExpertsReadTheMatricesThatTokensChoose) {
  device_.kernels = {{"gemm_q8_0_avx512", "", {1}, {10}, {}}};
  InstructionWork work = multiplying(1, /*matrices=*/2.5);
  work.products.push_back(work.products.front());
  double each = 2.5 * kBytes / 10;
  EXPECT_DOUBLE_EQ(seconds(OpCode::ExpertsGateUp, work,
                           "experts_gate_up_avx512", {},
                           {"gemm_q8_0_avx512", "gemm_q8_0_avx512"}),
                   2 * each);
}

// Three tokens choose each of eight matrices with probability 1/2: a matrix is
// chosen by one token in 3 of 8 cases, by two in 3 of 8, by three in 1 of 8.
TEST_F(CostModelTest, TimeOfChosenMatricesDependsOnTokensPerMatrix) {
  device_.kernels = {{"gemm_q8_0_avx512", "", {1, 2, 3}, {10, 10, 2}, {}}};
  auto chosen = [&](moe::Choices choices) {
    double slots = 0;
    choices.forEach([&](double matrices, double chance) {
      slots += matrices * chance * double(choices.tokens);
    });
    InstructionWork work =
        multiplying(slots / choices.chosen(), choices.chosen());
    work.choices = choices;
    return seconds(OpCode::ExpertsLinear, work, "experts_linear_avx512", {},
                   {"gemm_q8_0_avx512"});
  };
  EXPECT_DOUBLE_EQ(chosen({3, 8, 0.5, {}}),
                   8 * kBytes * (0.375 * 0.1 + 0.375 * 0.1 + 0.125 * 0.5));
  EXPECT_DOUBLE_EQ(chosen({1, 8, 0.5, {}}), 8 * kBytes * 0.5 * 0.1);
  // Matrices with different frequencies: two with 1/2, and one that all choose.
  float shares[] = {0, 1, 2};
  EXPECT_DOUBLE_EQ(chosen({3, 3, 0.5, shares}),
                   kBytes * (0.375 * 0.1 + 0.375 * 0.1 + 0.125 * 0.5 + 0.5));
}

// With many tokens, the probability that exactly one chooses a matrix may be
// too small for a double.
TEST_F(CostModelTest, WithThousandsOfTokensTimeIsThatOfTheMean) {
  device_.kernels = {{"gemm_q8_0_avx512", "", {1, 2}, {10, 5}, {}}};
  for (double chance : {0.001, 0.3, 0.9999}) {
    moe::Choices choices{8192, 8, chance, {}};
    InstructionWork work =
        multiplying(8192 * chance * 8 / choices.chosen(), choices.chosen());
    work.choices = choices;
    double each = seconds(OpCode::ExpertsLinear, work, "experts_linear_avx512",
                          {}, {"gemm_q8_0_avx512"});
    EXPECT_NEAR(each, 8 * kBytes * 0.1 * 8192 * chance, 1e-6 * each) << chance;
  }
}

TEST_F(CostModelTest, OtherKernelsDependOnBytesAndTokens) {
  device_.kernels = {{"rms_norm_avx512", "", {1, 11}, {10, 110}, {}},
                     {"router_avx512", "", {1}, {4}, {}}};
  InstructionWork work;
  work.activationBytes = 600;
  work.ops = 100;
  auto norm = [&](int64_t tokens) {
    return seconds(OpCode::RmsNorm, work, "rms_norm_avx512",
                   {.tokens = tokens});
  };
  EXPECT_DOUBLE_EQ(norm(1), 60);
  // A call takes as long with 11 tokens as with 1: all of it is fixed.
  EXPECT_DOUBLE_EQ(norm(11), 600.0 / 110);
  EXPECT_DOUBLE_EQ(norm(6), 600.0 / 60);
  EXPECT_DOUBLE_EQ(seconds(OpCode::Router, work, "router_avx512"), 25);
}

TEST_F(CostModelTest, HeadsOfManyTokensPayForTheirRows) {
  device_.kernels = {{"gemm_q8_0_avx512", "", {1}, {10}, {}}};
  InstructionWork work = multiplying(1);
  work.activationBytes = 600;
  auto head = [&](int64_t tokens) {
    return seconds(OpCode::HeadLinear, work, "head_linear_avx512",
                   {.tokens = tokens}, {"gemm_q8_0_avx512"});
  };
  EXPECT_DOUBLE_EQ(head(8), kBytes / 10);
  EXPECT_DOUBLE_EQ(head(9), kBytes / 10 + 1200 / 90e9);
}

TEST_F(CostModelTest, AttentionDependsOnCacheTypeAndDepth) {
  device_.kernels = {
      {"latent_attention_avx512", "q8_0 one", {100, 200}, {10, 20}, {}},
      {"latent_attention_avx512", "q8_0 many", {100}, {40}, {}},
      {"mla_attention_avx512", "q8_0 rows", {100}, {50}, {}},
      {"mla_attention_avx512", "q8_0 floats", {100}, {5}, {}},
      {"mla_attention_avx512", "q8_0 pairs", {100}, {25}, {}}};
  InstructionWork work;
  work.ops = 1000;
  work.kvType = moek::KvType::Q8_0;
  Situation situation{.tokens = 1, .cached = 99};
  auto latent = [&] {
    return seconds(OpCode::LatentAttention, work, "latent_attention_avx512",
                   situation);
  };
  EXPECT_DOUBLE_EQ(latent(), 100);
  situation.cached = 199;
  EXPECT_DOUBLE_EQ(latent(), 50);
  situation.tokens = 9;
  EXPECT_DOUBLE_EQ(latent(), 25);

  InstructionWork mla = multiplying(100, 8);
  mla.products.push_back(mla.products.front());
  mla.ops = 1000;
  mla.kvType = moek::KvType::Q8_0;
  double flops = 2 * 2 * 100 * 8 * kElements;
  EXPECT_DOUBLE_EQ(seconds(OpCode::MlaAttention, mla, "mla_attention_avx512",
                           situation, {"gemm_q8_0_avx512", "gemm_q8_0_avx512"}),
                   flops / 50 + 1000.0 / 25);
  // W_UK has no gemm rate.
  EXPECT_DOUBLE_EQ(seconds(OpCode::MlaAttention, mla, "mla_attention_avx512",
                           situation, {"gemm_q8_0_avx512"}),
                   flops / 5 + 1000.0 / 25);
}

TEST_F(CostModelTest, StatesDependOnRowsPerSequence) {
  device_.kernels = {{"delta_rule_avx512", "", {1, 11}, {10, 110}, {}},
                     {"short_conv_avx512", "", {1, 11}, {10, 110}, {}}};
  InstructionWork work;
  work.ops = 100;
  work.activationBytes = 500, work.kvBytes = 100;
  auto rule = [&](int64_t tokens, int64_t sequences) {
    return seconds(OpCode::DeltaRule, work, "delta_rule_avx512",
                   {.tokens = tokens, .sequences = sequences});
  };
  EXPECT_DOUBLE_EQ(rule(1, 1), 10);
  EXPECT_DOUBLE_EQ(rule(11, 1), 100.0 / 110);
  EXPECT_DOUBLE_EQ(rule(11, 11), 10); // The time is that of eleven single rows.
  EXPECT_DOUBLE_EQ(seconds(OpCode::ShortConv, work, "short_conv_avx512",
                           {.tokens = 11, .sequences = 11}),
                   60);
}

// KDA's rule is not the gated net's; a file without a variant's rates has
// others.
TEST_F(CostModelTest, RecurrentLayersHaveRatesOfTheirKind) {
  device_.kernels = {{"delta_rule_avx512", "", {1}, {10}, {}},
                     {"delta_rule_avx512", "channels", {1}, {5}, {}}};
  InstructionWork work;
  work.ops = 100;
  auto rule = [&](StringRef variant) {
    work.variant = variant;
    return seconds(OpCode::DeltaRule, work, "delta_rule_avx512",
                   {.tokens = 1, .sequences = 1});
  };
  EXPECT_DOUBLE_EQ(rule(""), 10);
  EXPECT_DOUBLE_EQ(rule("channels"), 20);
  EXPECT_DOUBLE_EQ(rule("sums"), 10);
}

// Reads of a page each are limited by their number or by their bytes.
TEST_F(CostModelTest, RowsOfFilesTakeWhatTheDiskTakes) {
  InstructionWork work;
  work.activationBytes = 1e9;
  work.fileReads = 1e4, work.weightBytes = 1e6;
  auto rows = [&] {
    return seconds(OpCode::NgramEmbed, work, "ngram_embed_ref");
  };
  EXPECT_DOUBLE_EQ(rows(), 1e4 / 1e5);
  device_.storage.readsPerSecond = 1e7;
  EXPECT_DOUBLE_EQ(rows(), 1e4 * 4096 / 3e9);
  device_.storage.bytesPerSecond = 1e8;
  EXPECT_DOUBLE_EQ(rows(), 1e4 * 4096 / 1e8);
  work.weightBytes = 1e9;
  EXPECT_DOUBLE_EQ(rows(), 10);
}

TEST_F(CostModelTest, ChosenRowsDependOnCacheTypeAndRowsSeen) {
  device_.kernels = {
      {"sparse_attention_avx512", "f16 one", {100, 200}, {10, 20}, {}},
      {"sparse_attention_avx512", "f16 many", {100}, {40}, {}},
      {"index_scores_avx512", "f16 one", {100}, {50}, {}},
      {"block_scores_avx512", "f16 one", {100}, {25}, {}},
      {"block_attention_avx512", "f16 one", {100}, {200}, {}}};
  InstructionWork work;
  work.ops = 1000;
  work.kvType = moek::KvType::F16;
  work.window = 100;
  Situation situation{.tokens = 1, .cached = 999};
  EXPECT_DOUBLE_EQ(seconds(OpCode::SparseAttention, work,
                           "sparse_attention_avx512", situation),
                   100);
  situation.tokens = 9;
  EXPECT_DOUBLE_EQ(seconds(OpCode::SparseAttention, work,
                           "sparse_attention_avx512", situation),
                   25);
  work.window = 0;
  situation.tokens = 1;
  EXPECT_DOUBLE_EQ(
      seconds(OpCode::IndexScores, work, "index_scores_avx512", situation), 20);
  EXPECT_DOUBLE_EQ(
      seconds(OpCode::BlockScores, work, "block_scores_avx512", situation), 40);
  EXPECT_DOUBLE_EQ(seconds(OpCode::BlockAttention, work,
                           "block_attention_avx512", situation),
                   5);
}

// Nothing was measured on a GPU: it takes its class's fraction of the peak for
// bytes or for operations, whichever takes longer.
TEST_F(CostModelTest, StatesAndChosenRowsUseAFractionOfAGpusPeaks) {
  device_.kind = moec::DeviceKind::Cuda;
  device_.isa = moek::Isa::Cuda;
  InstructionWork work;
  for (auto [op, kernel] : {std::pair{OpCode::DeltaRule, "delta_rule_cuda"},
                            {OpCode::ShortConv, "short_conv_cuda"},
                            {OpCode::IndexScores, "index_scores_cuda"},
                            {OpCode::SparseAttention, "sparse_attention_cuda"},
                            {OpCode::Compress, "compress_cuda"}}) {
    work.ops = 1e12, work.activationBytes = work.kvBytes = 1e6;
    EXPECT_DOUBLE_EQ(seconds(op, work, kernel), 1e12 / (2e12 * 0.25));
    work.ops = 1e3, work.activationBytes = work.kvBytes = 1e9;
    EXPECT_DOUBLE_EQ(seconds(op, work, kernel), 2e9 / 90e9);
  }
}

// Unpacking rows in the file's layout costs a GPU more than reading them, and
// again for every eight rows of activations (kernels/cuda/FloatGemmCycles.h).
TEST_F(CostModelTest, FileLayoutCostsAGpuInstructions) {
  device_.kind = moec::DeviceKind::Cuda;
  device_.isa = moek::Isa::Cuda;
  device_.cores = 1;
  auto of = [&](double rows, std::string_view gemm) {
    return moec::gemmSeconds(Product{weight({8, 16, 64}), 1, rows},
                             *moek::findGemm(gemm), {}, device_);
  };
  double lanes = 2e9 * 128, elements = 16 * 64;
  EXPECT_DOUBLE_EQ(of(1, "gemm_q8_0_cuda"), elements * 21 / lanes);
  EXPECT_DOUBLE_EQ(of(8, "gemm_q8_0_cuda"), elements * 75 / lanes);
  EXPECT_DOUBLE_EQ(of(64, "gemm_q8_0_cuda"), 8 * of(8, "gemm_q8_0_cuda"));
  EXPECT_LT(of(1, "gemm_q8_0_rows16_cuda"), of(1, "gemm_q8_0_cuda"));
  // With more multiprocessors, memory is the bottleneck.
  device_.cores = 100;
  EXPECT_DOUBLE_EQ(of(1, "gemm_q8_0_cuda"), elements / 32 * 34 / 90e9);
}

TEST_F(CostModelTest, WithoutRatesKernelsReachAFractionOfThePeaks) {
  // One row is limited by 90 % of the read bandwidth, many rows by half of the
  // int8 peak; floats by the float peak.
  EXPECT_DOUBLE_EQ(linear(1), kBytes / 90e9);
  EXPECT_DOUBLE_EQ(linear(1e6), 2e6 * kElements / 5e12);
  InstructionWork work;
  work.ops = 1e12;
  EXPECT_DOUBLE_EQ(seconds(OpCode::Router, work, "router_avx512"), 2);
  // Attention multiplies an 8-bit cache as integers, other caches as floats.
  work.kvType = moek::KvType::Q8_0;
  Situation situation{.cached = 99};
  auto latent = [&] {
    return seconds(OpCode::LatentAttention, work, "latent_attention_avx512",
                   situation);
  };
  EXPECT_DOUBLE_EQ(latent(), 0.2);
  work.kvType = moek::KvType::F16;
  EXPECT_DOUBLE_EQ(latent(), 2);
  // A missing efficiency is assumed.
  device_.int8.efficiency = 0;
  EXPECT_DOUBLE_EQ(linear(1e6),
                   2e6 * kElements / (10e12 * moec::Peak::kAssumed));
}

TEST_F(CostModelTest, CacheKeepsDataOfHalfItsSize) {
  EXPECT_TRUE(moec::stayInCache(500, device_));
  EXPECT_FALSE(moec::stayInCache(501, device_));
  device_.l3Bytes = 0; // The size is not known.
  EXPECT_FALSE(moec::stayInCache(1, device_));
}

TEST_F(CostModelTest, LinksHaveLatencyAndEfficiency) {
  EXPECT_EQ(moec::transferSeconds(1e9, device_), 0);
  device_.link = {20e9, 0.5, {}};
  device_.linkLatencySeconds = 1;
  EXPECT_DOUBLE_EQ(moec::transferSeconds(20e9, device_), 3);
}

// In one memory nothing crosses a link, but the bytes are read and written.
TEST_F(CostModelTest, AHandOverInOneMemoryHasNoLink) {
  device_.sharesMemory = true;
  device_.linkLatencySeconds = 1;
  device_.read = {20e9, 0.5, {}};
  EXPECT_DOUBLE_EQ(moec::transferSeconds(0, device_), 1);
  EXPECT_DOUBLE_EQ(moec::transferSeconds(20e9, device_), 5);
}

/// A GPU with its own memory, one that shares the CPU's, and the CPU.
class MemoriesTest : public testing::Test {
protected:
  MemoriesTest() : target_{"test", std::vector<DeviceDesc>(3), {}} {
    target_.devices[0].memoryBytes = 100;
    target_.devices[1].memoryBytes = target_.devices[2].memoryBytes = 1000;
    target_.devices[1].reservedBytes = target_.devices[2].reservedBytes = 200;
    target_.devices[1].sharesMemory = true;
    for (DeviceDesc &device : target_.devices)
      device.read = {10, 1, {}};
    target_.devices[1].read.perSecond = 20;
  }

  moec::TargetDesc target_;
};

TEST_F(MemoriesTest, WhatDevicesShareIsOneBudget) {
  moec::MemoryBudgets budgets(target_);
  EXPECT_EQ(budgets.of(0), 100);
  EXPECT_EQ(budgets.of(1), 800);
  EXPECT_TRUE(budgets.isSame(1, 2));
  EXPECT_FALSE(budgets.isSame(0, 2));
  std::vector<int64_t> used = {90, 300, 400};
  EXPECT_EQ(budgets.left(0, used), 10);
  EXPECT_EQ(budgets.left(1, used), 100);
  EXPECT_EQ(budgets.left(2, used), 100);
  EXPECT_TRUE(budgets.fit(used));
  used[1] = 401;
  EXPECT_EQ(budgets.left(2, used), -1);
  EXPECT_FALSE(budgets.fit(used));
  // A limit of the GPU is a limit of its part.
  target_.devices[1].reservedBytes = 900;
  EXPECT_EQ(moec::MemoryBudgets(target_).left(1, std::vector<int64_t>{0, 0, 0}),
            100);
  // A limit of the CPU is one of both.
  target_.devices[1].reservedBytes = 0;
  EXPECT_EQ(moec::MemoryBudgets(target_).of(1), 800);
}

TEST_F(MemoriesTest, WhatOneReadsDelaysTheOther) {
  // 20 bytes a second: each reads for 5 seconds.
  moec::MemoryTraffic traffic(target_);
  EXPECT_EQ(traffic.end(1, 0, 5, 100), 5);
  // The device alone takes longer than the memory.
  EXPECT_EQ(traffic.end(2, 0, 10, 100), 10);
  EXPECT_EQ(traffic.end(2, 2, 6, 100), 15); // The memory is free from 10 on.
  EXPECT_EQ(traffic.end(0, 0, 5, 1e9), 5);  // This device has its own memory.
  // Work that reads no bytes is not delayed and delays no other work.
  EXPECT_EQ(traffic.end(1, 0, 3, 0), 3);
  EXPECT_EQ(traffic.end(1, 20, 5, 100), 25);
  // Runs from 15 to 17, before the work at 20.
  EXPECT_EQ(traffic.end(2, 14, 2, 40), 17);
  EXPECT_EQ(traffic.end(2, 16, 3, 60), 20); // Runs from 17 to 20.
  EXPECT_EQ(traffic.end(2, 19, 1, 20), 26); // The memory is busy until 25.
}

// In any order, the memory has time for all that is read.
TEST_F(MemoriesTest, TogetherNoFasterThanTheMemory) {
  std::mt19937 engine(1);
  for (int round = 0; round < 100; ++round) {
    moec::MemoryTraffic traffic(target_);
    double bytes = 0, end = 0, free[3] = {};
    for (int i = 0; i < 50; ++i) {
      size_t device = 1 + engine() % 2;
      double read = engine() % 50, seconds = read / 20 + 0.1 * (engine() % 3);
      free[device] = traffic.end(device, free[device], seconds, read);
      bytes += read;
      end = std::max(end, free[device]);
    }
    EXPECT_GE(end, bytes / 20 - 1e-9);
  }
}

TEST(MemoryNodesTest, EachUseReadsWhatItsPathsAllow) {
  DeviceDesc cpu;
  cpu.cores = 32;
  cpu.numaNodes = 2;
  cpu.memoryBytes = uint64_t(64) << 30;
  cpu.read = {200e9, 1, {}};
  cpu.nodeLink = {50e9, 1, {}};
  cpu.int8 = {10e12, 0.5, {}};
  auto readBy = [&](moec::NodeUse use) {
    return moec::withNodes(cpu, use)->read.planned(0);
  };
  EXPECT_EQ(readBy(moec::NodeUse::Split), 200e9);
  // Each of two nodes reads half of the bytes at 100 GB/s and half at the
  // link's 50.
  EXPECT_NEAR(readBy(moec::NodeUse::Interleaved), 400e9 / 3, 1);
  EXPECT_EQ(readBy(moec::NodeUse::One), 100e9);
  auto one = moec::withNodes(cpu, moec::NodeUse::One);
  EXPECT_EQ(one->cores, 16);
  EXPECT_EQ(one->memoryBytes, uint64_t(32) << 30);
  EXPECT_EQ(one->int8.planned(0), 2.5e12);
  // A link that is faster than a node's memory does not help.
  cpu.nodeLink = {300e9, 1, {}};
  EXPECT_NEAR(readBy(moec::NodeUse::Interleaved), 200e9, 1);
  // Without a known link there is no figure.
  cpu.nodeLink = {};
  EXPECT_FALSE(moec::withNodes(cpu, moec::NodeUse::Interleaved));
  cpu.kernels.emplace_back();
  EXPECT_FALSE(moec::withNodes(cpu, moec::NodeUse::One));
  EXPECT_TRUE(moec::withNodes(cpu, moec::NodeUse::Split));
}

} // namespace
