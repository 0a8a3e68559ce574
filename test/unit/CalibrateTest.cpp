// Measurements give plausible numbers; their size depends on the machine.
#include "runtime/device/cpu/Calibrate.h"

#include "runtime/base/HostCpu.h"
#include "runtime/device/cpu/KernelRates.h"
#include "runtime/device/cpu/Pinning.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <thread>

using namespace moert;

namespace {

CalibrationOptions quick() {
  CalibrationOptions options;
  options.seconds = 0;
  options.readBytes = 1 << 20;
  options.loopIterations = 1000;
  return options;
}

TEST(Calibrate, MeasuresEveryLimitOfAThreadPool) {
  for (int threads : {1, 3}) {
    StatusOr<Calibrator> calibrator = Calibrator::create(threads, quick());
    ASSERT_TRUE(calibrator.isOk()) << calibrator.status().message();
    CpuLimits limits = calibrator->measure();
    EXPECT_EQ(limits.threads, threads);
    for (double rate : {limits.readBytesPerSecond, limits.int8OpsPerSecond,
                        limits.floatOpsPerSecond}) {
      EXPECT_GT(rate, 1e5);
      EXPECT_LT(rate, 1e16);
    }
    EXPECT_EQ(limits.bf16OpsPerSecond > 1e5, moek::hostHasBf16Dot());
    EXPECT_GE(limits.disturbance.spread, 0);
    EXPECT_LT(limits.disturbance.spread, 1);
  }
}

// A measurement that waited for a rate of 0 to add up would take forever.
TEST(Calibrate, RatesThatTheCpuLacksAreNotMeasured) {
  CalibrationOptions options = quick();
  options.isa = moek::Isa::Ref; // This ISA has no dot products of BF16.
  options.seconds = 1e6;
  StatusOr<Calibrator> calibrator = Calibrator::create(2, options);
  ASSERT_TRUE(calibrator.isOk()) << calibrator.status().message();
  EXPECT_EQ(calibrator->opsPerSecond(moek::Peak::Bf16).best, 0);
}

TEST(Calibrate, BandwidthByNumberOfThreads) {
  std::vector<int> announced;
  StatusOr<std::vector<Rate>> rates = readBandwidthByThreads(
      2, quick(), [&](int threads) { announced.push_back(threads); });
  ASSERT_TRUE(rates.isOk()) << rates.status().message();
  EXPECT_EQ(announced, (std::vector<int>{1, 2}));
  ASSERT_EQ(rates->size(), 2u);
  for (const Rate &rate : *rates) {
    EXPECT_TRUE(std::isfinite(rate.best) && rate.best > 0);
    EXPECT_LE(rate.sustained, rate.best);
    EXPECT_GE(rate.queued, 0);
  }
}

TEST(Calibrate, VaryingRatesOrQueuesMeanDisturbed) {
  EXPECT_TRUE((Rate{.best = 10, .sustained = 9}.disturbance().isQuiet()));
  // Half of a core is taken: times of short runs vary, and those of long runs
  // are all equally slow.
  Disturbance spread = Rate{.best = 10, .sustained = 5}.disturbance();
  Disturbance queued =
      Rate{.best = 5, .sustained = 4.9, .queued = 0.5}.disturbance();
  EXPECT_FALSE(spread.isQuiet());
  EXPECT_FALSE(queued.isQuiet());
  Disturbance both = worse(spread, queued);
  EXPECT_DOUBLE_EQ(both.spread, 0.5);
  EXPECT_DOUBLE_EQ(both.queued, 0.5);
  EXPECT_EQ(both.text(), "rates spread by 50 %, and 0.5 threads had no CPU");
  // Nothing was measured on this CPU.
  EXPECT_TRUE(Rate().disturbance().isQuiet());
}

// Two thread pools share the same CPUs, so at least one of them is disturbed.
TEST(Calibrate, NoticesAnotherThreadPool) {
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  for (int cpu : physicalCores())
    others.emplace_back([&, cpu] {
      PinnedHere pinned({&cpu, 1});
      while (!done)
        ;
    });
  CalibrationOptions options = quick();
  options.seconds = 0.1;
  StatusOr<Calibrator> calibrator =
      Calibrator::create(int(others.size()), options);
  bool disturbed = false;
  for (int i = 0; i < 20 && !disturbed && calibrator.isOk(); ++i)
    disturbed = !calibrator->measure().disturbance.isQuiet();
  done = true;
  for (std::thread &thread : others)
    thread.join();
  EXPECT_TRUE(disturbed);
}

TEST(Calibrate, MemoryThatDoesNotExistIsAnError) {
  CalibrationOptions options = quick();
  options.readBytes = uint64_t(1) << 60;
  StatusOr<Calibrator> calibrator = Calibrator::create(1, options);
  ASSERT_FALSE(calibrator.isOk());
  EXPECT_EQ(calibrator.status().code(), StatusCode::DoesNotFit);
}

TEST(Calibrate, CachesGrowFromLevelToLevel) {
  CacheSizes caches = hostCaches();
  // Some systems do not tell these sizes.
  if (caches.l1Bytes != 0 && caches.l2Bytes != 0) {
    EXPECT_LE(caches.l1Bytes, caches.l2Bytes);
  }
}

TEST(KernelRatesTest, KernelsOfThisMachineRunAtEverySize) {
  for (const char *only :
       {"gemm_q8_0", "attention", "rms_norm", "router", "absorb_query",
        "short_conv", "delta_gates", "delta_rule", "layer_norm", "row_store",
        "index_scores", "index_select", "compress", "entry_store",
        "block_scores", "block_attention", "hyper_weights", "hyper_collapse",
        "hyper_spread"}) {
    StatusOr<KernelRates> rates = measureKernels(
        1,
        {.seconds = 1e-5, .brief = true, .only = only, .memoryBytes = 1 << 20});
    ASSERT_TRUE(rates.isOk()) << rates.status().message();
    EXPECT_FALSE(rates->kernels.empty()) << only;
    for (const KernelRate &rate : rates->kernels) {
      EXPECT_NE(rate.kernel.find(only), std::string::npos);
      ASSERT_FALSE(rate.at.empty()) << rate.kernel;
      EXPECT_TRUE(std::is_sorted(rate.at.begin(), rate.at.end()));
      ASSERT_EQ(rate.memory.size(), rate.at.size());
      for (double perSecond : rate.memory)
        EXPECT_GT(perSecond, 0) << rate.kernel << " " << rate.variant;
      for (double perSecond : rate.cache)
        EXPECT_GT(perSecond, 0) << rate.kernel << " " << rate.variant;
    }
    EXPECT_GT(rates->overheads.step, 0);
    EXPECT_GT(rates->overheads.instruction, 0);
  }
}

// A round must end even if other programs keep all cores busy.
TEST(KernelRatesTest, WithoutTimeASizeIsMeasuredOnce) {
  auto begin = std::chrono::steady_clock::now();
  // Three sizes would take 20 s each if there were time.
  StatusOr<KernelRates> rates = measureKernels(1, {.seconds = 20,
                                                   .mostSeconds = 0,
                                                   .brief = true,
                                                   .only = "rms_norm",
                                                   .memoryBytes = 1 << 20});
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(rates.isOk());
  ASSERT_EQ(rates->kernels.at(0).memory.size(), 3u);
  for (double perSecond : rates->kernels.at(0).memory)
    EXPECT_GT(perSecond, 0);
  EXPECT_LT(seconds.count(), 20);
}

TEST(KernelRatesTest, KeepsTheBetterOfTwoRoundsAtEachPoint) {
  KernelRates best;
  keepBest(best, {{{"k", "a", {1, 2}, {10, 20}, {30, 40}}}, {3, 2, 1}, {0.5}});
  keepBest(best, {{{"k", "a", {1, 2}, {15, 15}, {35, 35}},
                   {"k", "b", {1, 2}, {99, 99}, {}}},
                  {2, 3, 0.5},
                  {0.1}});
  ASSERT_EQ(best.kernels.size(), 1u);
  EXPECT_EQ(best.kernels[0],
            (KernelRate{"k", "a", {1, 2}, {15, 20}, {35, 40}}));
  EXPECT_EQ(best.overheads.step, 2);
  EXPECT_EQ(best.overheads.instruction, 2);
  EXPECT_EQ(best.overheads.barrier, 0.5);
  EXPECT_EQ(best.disturbance.spread, 0.1);
}

} // namespace
