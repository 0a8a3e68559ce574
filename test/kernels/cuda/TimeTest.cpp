//===- TimeTest.cpp - What the clock demands of each kernel ---------------===//
//
// Times that the software GPU's clock predicts, as a part of what bandwidth or
// tensor cores allow. Counters (EfficiencyTest.cpp) say what a kernel cannot go
// below; these say what it comes to, with latency, waves and tails.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/ClockedGpu.h"
#include "test/kernels/cuda/Workload.h"

#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace moek;
using namespace moek::test;
using softgpu::GpuModel;
using softgpu::LaunchTime;

namespace {

/// Such a GPU has less bandwidth and int8 rate for its issue slots.
bool isConsumers(const GpuModel &gpu) { return gpu.isShared; }

class TimeTest : public testing::Test {
protected:
  void SetUp() override {
    GpuTest &test = GpuTest::get();
    if (!test.compiler)
      GTEST_SKIP() << test.why;
    if (!softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "this CPU cannot run the software GPU";
  }

  static constexpr uint64_t kBudget = 2'000'000;

  struct Result {
    Workload work;
    double seconds = 0;
    std::vector<LaunchTime> launches;
    /// The fraction of the time that reading the weights or the cache takes.
    double ofBandwidth(const GpuModel &gpu) const {
      return double(work.weightBytes) / gpu.gigabytes / 1e9 / seconds;
    }
    /// `macs`: multiply-accumulates per cycle of a multiprocessor.
    double ofPeak(const GpuModel &gpu, double macs) const {
      return work.operations / 2 /
             (macs * gpu.multiprocessors * gpu.gigahertz * 1e9) / seconds;
    }
  };
  /// Returns the time of the workload of `make` on a GPU.
  template <class F>
  Result time(const GpuModel &model, F make, uint64_t budget = kBudget) {
    // A few blocks of each class are enough for a bound.
    ClockedGpu gpu(model, budget);
    Workbench bench(gpu);
    Result result;
    result.work = make(bench);
    result.seconds = gpu.secondsOf(result.work.launches, &result.launches);
    fmt::print("{:5} {:9.2f} us, {:3.0f} % of bandwidth, {:3.0f} % of int8, {}",
               model.name, result.seconds * 1e6,
               100 * result.ofBandwidth(model),
               100 * result.ofPeak(model, model.int8Macs),
               result.launches.empty() ? "" : result.launches[0].bound());
    fmt::print("\n");
    return result;
  }
};

TEST_F(TimeTest, LargeMatricesOfATokenReachMostOfTheBandwidth) {
  for (const GpuModel &gpu : softgpu::gpuModels()) {
    Result r = time(gpu, [](Workbench &make) {
      return make.linear(Format::Q4_K, 8192, 7168, 1, 1);
    });
    EXPECT_GE(r.ofBandwidth(gpu), isConsumers(gpu) ? 0.75 : 0.65) << gpu.name;
  }
}

/// What `work` takes at least, however a kernel does it: the nodes of its
/// launches, `cycles` before the last bytes are asked for, one load from DRAM,
/// and the bytes at the rate that reading reaches.
double leastSeconds(const GpuModel &gpu, const Workload &work, double cycles) {
  return double(work.launches.size()) *
             softgpu::kClockConstants.nodeMicroseconds * 1e-6 +
         (cycles + gpu.latency.dram) / gpu.gigahertz * 1e-9 +
         double(work.weightBytes) / (gpu.gigabytes * gpu.dramEfficiency) * 1e-9;
}

TEST_F(TimeTest, EightRowsCostLittleMore) {
  for (const GpuModel &gpu : softgpu::gpuModels()) {
    Result r = time(gpu, [](Workbench &make) {
      return make.linear(Format::Q4_K, 8192, 7168, 8, 1);
    });
    double part =
        leastSeconds(gpu, r.work, softgpu::kClockConstants.blockStart) /
        r.seconds;
    fmt::print("      {:.1f} % of it at least\n", 100 * part);
    EXPECT_GE(part, 0.93) << gpu.name;
  }
}

// A matrix of few rows has few blocks, of which each needs all columns at once.
TEST_F(TimeTest, SmallMatricesComeNearTheirLaunch) {
  for (const GpuModel &gpu : softgpu::gpuModels())
    for (auto [rows, cols] :
         {std::pair<int64_t, int64_t>{576, 7168}, {2048, 2048}})
      for (int32_t tokens : {1, 8}) {
        Result r = time(gpu, [=](Workbench &make) {
          return make.linear(Format::Q4_K, rows, cols, tokens, 1);
        });
        double part =
            leastSeconds(gpu, r.work, softgpu::kClockConstants.blockStart) /
            r.seconds;
        fmt::print("      {} x {}, {} rows: {:.0f} %\n", rows, cols, tokens,
                   100 * part);
        // Unpacking 576 rows takes two thirds of an A100's multiprocessors, or
        // half of an H100's, longer than memory needs.
        EXPECT_GE(part, tokens == 1                       ? 0.65
                        : isConsumers(gpu) || cols < 7168 ? 0.6
                                                          : 0.42)
            << gpu.name << " " << rows << " x " << cols << ", " << tokens;
      }
}

TEST_F(TimeTest, PrefillReachesPartOfTheTensorPeak) {
  for (const GpuModel &gpu : softgpu::gpuModels()) {
    Result r = time(gpu, [](Workbench &make) {
      return make.linear(Format::Q4_K, 8192, 2048, 512, 1);
    });
    EXPECT_GE(r.ofPeak(gpu, gpu.int8Macs), isConsumers(gpu) ? 0.2 : 0.07)
        << gpu.name;
  }
}

// Scales are decoded while the other warp of a quarter multiplies. 128 tiles of
// 256 x 128 are one wave of a 4090.
TEST_F(TimeTest, PrefillOfGeforceReachesPartOfTheInt8Rate) {
  constexpr uint64_t kMore = 6'000'000;
  const GpuModel &gpu = *softgpu::findGpuModel("4090");
  for (auto [format, part] : {std::pair{Format::Q8_0, 0.63},
                              {Format::Q4_0, 0.65},
                              {Format::Q6_K, 0.39},
                              {Format::IQ2_S, 0.39}}) {
    Result r = time(
        gpu,
        [&, format = format](Workbench &make) {
          return make.linear(format, 8192, 4096, 512, 1);
        },
        kMore);
    EXPECT_GE(r.ofPeak(gpu, gpu.int8Macs), part) << formatInfo(format).name;
  }
}

// 128 tiles are 1.6 waves of a 3090 and three quarters of a 5090's, which
// divide some by columns (kernels/cuda/Tail.cuh). The clock executes all blocks
// of such launches in another order than that of the grid, in which a 3090's L2
// keeps fewer of the large weights of Q8_0 between blocks.
TEST_F(TimeTest, DividedTilesReachPartOfTheInt8Rate) {
  for (auto [name, format, part] : {std::tuple{"3090", Format::Q4_K, 0.48},
                                    {"3090", Format::Q8_0, 0.42},
                                    {"5090", Format::Q4_K, 0.48},
                                    {"5090", Format::Q8_0, 0.47},
                                    {"5090", Format::Q6_K, 0.29}}) {
    SCOPED_TRACE(testing::Message() << name << ' ' << formatInfo(format).name);
    const GpuModel &gpu = *softgpu::findGpuModel(name);
    Result r = time(gpu, [&, format = format](Workbench &make) {
      return make.linear(format, 8192, 4096, 512, 1);
    });
    EXPECT_EQ(r.launches.size(), 1);
    EXPECT_GE(r.ofPeak(gpu, gpu.int8Macs), part);
  }
}

// With mma.sync, both reach 31 % of the dense peak at most. 16-bit weights
// would wait for L2 (36 %) if blocks did not share activations in clusters.
TEST_F(TimeTest, WarpgroupsReachMoreOfTheTensorPeak) {
  const GpuModel &gpu = *softgpu::findGpuModel("H100");
  Result codes = time(gpu, [](Workbench &make) {
    return make.linear(Format::Q4_K, 8192, 4096, 512, 1);
  });
  EXPECT_GE(codes.ofPeak(gpu, gpu.halfMacs), 0.43);
  Result floats = time(gpu, [](Workbench &make) {
    return make.ofFloats(Format::F16, 8192, 4096, 512);
  });
  EXPECT_GE(floats.ofPeak(gpu, gpu.halfMacs), 0.56);
  Result rows = time(gpu, [](Workbench &make) {
    return make.ofFloats(Format::BF16, 8192, 4096, 2048);
  });
  EXPECT_GE(rows.ofPeak(gpu, gpu.halfMacs), 0.62);
}

// Blocks of 128 queries, which fill a wave, wait for L2; with 256 there are
// half as many, which is no less work for each multiprocessor where rows are
// many.
TEST_F(TimeTest, AttentionOfPromptsReachesPartOfTheTensorPeak) {
  const GpuModel &gpu = *softgpu::findGpuModel("H100");
  for (auto [tokens, part] : {std::pair{512, 0.495}, {2048, 0.53}}) {
    Result r = time(gpu, [tokens = tokens](Workbench &make) {
      return make.attention(KvType::F16, 32, 4, 128, 4096, 1, tokens, 1);
    });
    EXPECT_GE(r.ofPeak(gpu, gpu.halfMacs), part) << tokens << " rows";
  }
}

// Blocks that have parts of a tile's keys add their sums while others multiply.
TEST_F(TimeTest, AttentionInPartsReachesPartOfTheTensorPeak) {
  const GpuModel &gpu = *softgpu::findGpuModel("5090");
  Result r = time(gpu, [](Workbench &make) {
    return make.attention(KvType::F16, 32, 4, 128, 4096, 1, 512, 1);
  });
  EXPECT_EQ(r.launches.size(), 1);
  EXPECT_GE(r.ofPeak(gpu, gpu.halfMacs), 0.76);
}

TEST_F(TimeTest, LatentAttentionIsSplitOverMultiprocessors) {
  for (const GpuModel &gpu : softgpu::gpuModels()) {
    Result r = time(gpu, [](Workbench &make) {
      return make.latent(KvType::BF16, 16, 32768, 128, 1);
    });
    EXPECT_GE(r.launches[0].busy, 0.75 * gpu.multiprocessors) << gpu.name;
    EXPECT_GE(r.ofBandwidth(gpu), isConsumers(gpu) ? 0.4 : 0.3) << gpu.name;
  }
}

// Two loads from L2 say where a cache's rows are: the step's sequence, then its
// pages. Of 8 MB, 80 % of the bandwidth would be less than what is inevitable
// on data centres' GPUs and a 5090.
TEST_F(TimeTest, AShortCacheTakesLittleMoreThanItsLatencies) {
  struct {
    std::string_view gpu;
    double grouped, latent;
  } bounds[] = {{"3090", 0.65, 0.47},
                {"4090", 0.72, 0.57},
                {"5090", 0.6, 0.44},
                {"A100", 0.56, 0.43},
                {"H100", 0.49, 0.4}};
  for (const auto &bound : bounds) {
    const GpuModel &gpu = *softgpu::findGpuModel(bound.gpu);
    auto partOf = [&](const Result &r) {
      double part = leastSeconds(gpu, r.work, 2 * gpu.latency.l2) / r.seconds;
      fmt::print("  {:.0f} % of the time is inevitable\n", 100 * part);
      return part;
    };
    EXPECT_GE(partOf(time(gpu,
                          [](Workbench &make) {
                            return make.attention(KvType::F16, 32, 4, 128, 4096,
                                                  0, 1, 1);
                          })),
              bound.grouped)
        << gpu.name;
    EXPECT_GE(partOf(time(gpu,
                          [](Workbench &make) {
                            return make.latent(KvType::BF16, 16, 4096, 128, 1);
                          })),
              bound.latent)
        << gpu.name;
  }
}

TEST_F(TimeTest, DeltaRuleReadsAndWritesItsStates) {
  for (const GpuModel &gpu : softgpu::gpuModels()) {
    Result r = time(
        gpu, [](Workbench &make) { return make.deltaRule(32, 128, 128, 1); });
    EXPECT_GE(r.ofBandwidth(gpu), 0.2) << gpu.name;
  }
}

/// The members of SerialAttentionArgs in SerialAttention.cu.
struct SerialAttentionArgs {
  uint64_t q, kv, pages, out;
  int32_t heads, kvHeads, positions;
};

/// Compiles SerialAttention.cu.
moec::KernelImage serialAttention(int arch) {
  std::ifstream file(MOE_SERIAL_ATTENTION);
  std::stringstream source;
  source << file.rdbuf();
  std::string options[] = {"--std=c++17"};
  auto output = GpuTest::get().compiler->nvrtc().compile(
      "SerialAttention.cu", source.str(), {}, options, arch);
  EXPECT_TRUE(output.isOk()) << output.status().message();
  moec::KernelImage image;
  image.arch = arch;
  image.registers = 64; // Two blocks of four warps allow up to 255.
  if (output)
    image.ptx = output->ptx;
  return image;
}

// Decode attention as it was: a block for each of four KV heads, whose threads
// load two bytes at a time in a chain. It has to fail what attention is asked.
TEST_F(TimeTest, FailsAttentionOfOneBlockAndAChainOfLoads) {
  constexpr int kHeads = 32, kKvHeads = 4, kPositions = 4096, kTiles = 128;
  const GpuModel &model = *softgpu::findGpuModel("4090");
  ClockedGpu gpu(model);
  Workbench make(gpu);
  std::vector<int32_t> pages(kPositions / 64);
  for (size_t i = 0; i < pages.size(); ++i)
    pages[i] = int32_t(pages.size() - 1 - i);
  int64_t bytes = int64_t(kPositions) * 2 * kKvHeads * 128 * 2;
  SerialAttentionArgs args{make.random(kHeads * 128 * 4),
                           make.random(bytes),
                           make.empty(int64_t(pages.size() * 4)),
                           make.empty(kHeads * 128 * 4),
                           kHeads,
                           kKvHeads,
                           kPositions};
  gpu.copyIn(args.pages, pages.data(), pages.size() * 4);
  cuda::Launch launch;
  launch.kernel.entry = "serial_attention";
  launch.grid[0] = kKvHeads;
  launch.threads = 128;
  launch.sharedBytes = (32 * 129 + 16 * 128) * 4;
  std::memcpy(launch.args.data(), &args, sizeof(args));
  launch.argBytes = sizeof(args);
  ASSERT_EQ(gpu.launch(launch, serialAttention(model.arch)), "");
  LaunchTime time = gpu.takeTimes()[0];
  fmt::print("{:.0f} us, {:.1f} us a tile of 32 keys, {:.2f} % of bandwidth\n",
             time.seconds * 1e6, time.seconds * 1e6 / kTiles,
             100 * double(bytes) / time.seconds / 1e9 / model.gigabytes);
  EXPECT_EQ(time.busy, kKvHeads);
  EXPECT_EQ(time.bound(), "latency");
  EXPECT_LT(double(bytes) / time.seconds / 1e9, 0.1 * model.gigabytes);
  // 64 loads one after the other take 15 to 20 us by arithmetic.
  EXPECT_GT(time.seconds * 1e6 / kTiles, 12);
  EXPECT_LT(time.seconds * 1e6 / kTiles, 25);
}

} // namespace
