//===- ClockTest.cpp - The clock sees what counters do not ----------------===//
//
// Kernels with a fault and the same without it (kernels/faults.cu). Each test
// says how much longer the one with the fault takes at least.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Clock.h"

#include "test/softgpu/PtxTest.h"
#include "test/softgpu/TestNvrtc.h"

namespace softgpu {
namespace {

class ClockTest : public PtxTest {
protected:
  void SetUp() override {
    if (!nvrtc.isThere())
      GTEST_SKIP() << "no libnvrtc.so.13 or .12";
    if (isOnDriver())
      GTEST_SKIP() << "the clock is the software GPU's";
  }
  const Kernel &compiled(const std::string &name) {
    static const std::string ptx =
        nvrtc
            .compile(std::string(MOE_SOFTGPU_KERNELS) + "/faults.cu",
                     model.arch)
            .ptx;
    return loadText(ptx, name);
  }
  template <class... Args>
  LaunchTime time(const std::string &name, uint32_t blocks, uint32_t threads,
                  const Args &...args) {
    const Kernel &kernel = compiled(name);
    LaunchShape shape{{blocks, 1, 1}, {threads, 1, 1}, 0};
    Recording recording(model);
    recording.blocks = sampleOrder(blocks);
    recording.budget = budget;
    recording.warmBytes = 0;
    const void *pointers[] = {&args..., nullptr};
    LaunchResult result = gpu.software().launch(
        kernel, shape, {pointers, sizeof...(Args)}, nullptr, &recording);
    EXPECT_TRUE(isClean(result));
    return timeOf(kernel, shape, resources, recording);
  }
  uint64_t words(size_t count) {
    return upload(std::vector<uint32_t>(count, 1));
  }

  Nvrtc nvrtc;
  const GpuModel &model = *findGpuModel("4090");
  Resources resources{.registers = 40};
  uint64_t budget = ~uint64_t(0);
};

constexpr int kWords = 1 << 20;

TEST_F(ClockTest, AStreamReachesMostOfTheBandwidth) {
  LaunchTime t = time("stream", 256, 256, words(8 * kWords), zeros(1 << 18),
                      int(8 * kWords));
  EXPECT_EQ(t.bound(), "DRAM");
  double rate = 32.0 * kWords / t.seconds / 1e9;
  EXPECT_GT(rate, 0.7 * model.gigabytes);
  EXPECT_LT(rate, model.gigabytes);
}

TEST_F(ClockTest, OneBlockIsBoundByItsMultiprocessor) {
  uint64_t x = words(kWords), out = zeros(1 << 18);
  LaunchTime many = time("stream", 128, 256, x, out, kWords);
  LaunchTime one = time("stream", 1, 256, x, out, kWords);
  EXPECT_EQ(one.busy, 1);
  EXPECT_GT(one.seconds, 10 * many.seconds);
}

TEST_F(ClockTest, SmallLoadsKeepTooFewBytesInFlight) {
  uint64_t x = words(kWords), out = zeros(1 << 18);
  LaunchTime wide = time("stream", 128, 128, x, out, kWords);
  LaunchTime narrow = time("trickle", 128, 128, x, out, kWords);
  EXPECT_EQ(narrow.bound(), "latency");
  EXPECT_GT(narrow.seconds, 2.5 * wide.seconds);
}

TEST_F(ClockTest, AChainOfLoadsTakesTheirLatencies) {
  constexpr int kRows = 512;
  std::vector<int> pages(kRows);
  for (int i = 0; i < kRows; ++i)
    pages[size_t(i)] = i;
  uint64_t x = words(kRows * 128), out = zeros(1 << 16);
  LaunchTime tiles = time("tiles", 16, 128, x, out, kRows);
  LaunchTime chain = time("chain", 16, 128, x, upload(pages), out, kRows);
  EXPECT_EQ(chain.bound(), "latency");
  EXPECT_GT(chain.seconds, 5 * tiles.seconds);
  // At least two latencies of L2 for every row.
  EXPECT_GT(chain.cycles, kRows * model.latency.l2);
}

TEST_F(ClockTest, ABarrierForEveryRowCosts) {
  constexpr int kRows = 512;
  uint64_t x = words(kRows * 128), out = zeros(1 << 16);
  LaunchTime tiles = time("tiles", 16, 128, x, out, kRows);
  LaunchTime barriers = time("barriers", 16, 128, x, out, kRows);
  EXPECT_GT(barriers.seconds, 1.5 * tiles.seconds);
}

TEST_F(ClockTest, BankConflictsTakeWavefronts) {
  uint64_t out = zeros(1 << 20);
  LaunchTime without = time("banks", 128, 256, out, 1, 1024);
  LaunchTime with = time("banks", 128, 256, out, 32, 1024);
  EXPECT_EQ(with.bound(), "shared");
  EXPECT_GT(with.cycles, 32 * 8 * 1024); // Each of 8 warps needs 32 wavefronts.
  EXPECT_GT(with.seconds, 5 * without.seconds);
}

TEST_F(ClockTest, CopiesThatNothingOverlapsCost) {
  uint64_t x = words(512 * 256), out = zeros(1 << 16);
  LaunchTime two = time("twoStages", 16, 128, x, out, 256);
  LaunchTime one = time("oneStage", 16, 128, x, out, 256);
  EXPECT_GT(one.seconds, 1.3 * two.seconds);
}

TEST_F(ClockTest, SpilledRegistersAreLoadedAndStored) {
  uint64_t x = words(kWords), out = zeros(1 << 18);
  LaunchTime without = time("twoStages", 16, 128, x, out, 256);
  resources.spilledBytes = 400;
  LaunchTime with = time("twoStages", 16, 128, x, out, 256);
  EXPECT_GT(with.seconds, 1.3 * without.seconds);
}

TEST_F(ClockTest, RegistersLimitResidentBlocks) {
  uint64_t x = words(2 * kWords), out = zeros(1 << 20);
  LaunchTime many = time("trickle", 768, 256, x, out, 2 * kWords);
  resources.registers = 255;
  LaunchTime few = time("trickle", 768, 256, x, out, 2 * kWords);
  EXPECT_EQ(many.resident, 6);
  EXPECT_EQ(few.resident, 1);
  EXPECT_GT(few.seconds, 1.5 * many.seconds);
}

// The last wave of a grid has few blocks, and takes as long as a full one.
TEST_F(ClockTest, TailsCost) {
  uint64_t out = zeros(1 << 20);
  resources.registers = 255;
  LaunchTime full = time("banks", 128, 256, out, 1, 1024);
  LaunchTime tail = time("banks", 129, 256, out, 1, 1024);
  EXPECT_GT(tail.seconds, 1.8 * full.seconds);
}

TEST_F(ClockTest, WhatWasTouchedBeforeComesFromL2) {
  SectorCache l2;
  Recording first(model), second(model);
  uint64_t x = words(kWords), out = zeros(1 << 18);
  const Kernel &kernel = compiled("stream");
  LaunchShape shape{{128, 1, 1}, {256, 1, 1}, 0};
  int count = kWords;
  const void *arguments[] = {&x, &out, &count};
  auto beyond = [&](Recording &recording) {
    recording.l2 = &l2;
    EXPECT_TRUE(isClean(
        gpu.software().launch(kernel, shape, arguments, nullptr, &recording)));
    return recording.classes[0].bytes[2];
  };
  EXPECT_EQ(beyond(first) * 128, uint64_t(kWords) * 4);
  EXPECT_EQ(beyond(second), 0u);
}

// Some blocks of a grid stand for all, and their reads are extrapolated.
TEST_F(ClockTest, PartOfAGridPredictsTheWhole) {
  uint64_t x = words(4 * kWords), out = zeros(1 << 20);
  LaunchTime whole = time("stream", 1024, 128, x, out, 4 * kWords);
  budget = 10'000;
  LaunchTime part = time("stream", 1024, 128, x, out, 4 * kWords);
  EXPECT_LT(part.executed, part.blocks / 4);
  EXPECT_EQ(whole.executed, whole.blocks);
  EXPECT_NEAR(part.seconds, whole.seconds, 0.1 * whole.seconds);
}

TEST_F(ClockTest, TheSameLaunchTakesTheSameTime) {
  uint64_t x = words(kWords), out = zeros(1 << 18);
  LaunchTime first = time("stream", 128, 256, x, out, kWords);
  gpu.options().schedule = Schedule::Shuffled;
  LaunchTime second = time("stream", 128, 256, x, out, kWords);
  EXPECT_NEAR(first.seconds, second.seconds, 0.01 * first.seconds);
  gpu.options().schedule = Schedule::Forward;
  LaunchTime third = time("stream", 128, 256, x, out, kWords);
  EXPECT_EQ(first.seconds, third.seconds);
}

} // namespace
} // namespace softgpu
