// Measurements give plausible numbers; how large is the machine's affair.
#include "runtime/device/cpu/Calibrate.h"

#include "runtime/base/HostCpu.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace moert;

namespace {

CalibrationOptions quick() {
  CalibrationOptions options;
  options.seconds = 0;
  options.readBytes = 1 << 20;
  options.loopIterations = 1000;
  return options;
}

TEST(Calibrate, MeasuresEveryLimitOfATeam) {
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
  }
}

TEST(Calibrate, BandwidthOfEveryTeamInOrder) {
  std::vector<int> announced;
  StatusOr<std::vector<double>> rates = readBandwidthByThreads(
      2, quick(), [&](int threads) { announced.push_back(threads); });
  ASSERT_TRUE(rates.isOk()) << rates.status().message();
  EXPECT_EQ(announced, (std::vector<int>{1, 2}));
  ASSERT_EQ(rates->size(), 2u);
  for (double rate : *rates)
    EXPECT_TRUE(std::isfinite(rate) && rate > 0);
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
  // Where the system tells them.
  if (caches.l1Bytes != 0 && caches.l2Bytes != 0) {
    EXPECT_LE(caches.l1Bytes, caches.l2Bytes);
  }
}

} // namespace
