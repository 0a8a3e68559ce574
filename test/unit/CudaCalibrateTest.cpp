// The arithmetic of measurements, on a fake device with known rates.
#include "runtime/device/cuda/CudaCalibrate.h"

#include "runtime/device/cuda/CudaPeak.h"
#include "runtime/device/cuda/PciLink.h"
#include "test/support/TempDir.h"
#include "test/unit/CudaTestFixture.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <limits>

using namespace moert;
using testing::HasSubstr;

namespace {

class CudaCalibrateTest : public moetest::CudaTest {
protected:
  StatusOr<CudaLimits> measure() {
    MOE_ASSIGN_OR_RETURN(CudaDriver driver, CudaDriver::load(MOE_FAKE_CUDA));
    MOE_ASSIGN_OR_RETURN(CudaGpu device, driver.describe(0));
    return measureCudaDevice(driver, device, {.seconds = 0});
  }
};

TEST_F(CudaCalibrateTest, MeasuresTheDevicesRates) {
  cuda.gpus.resize(1);
  StatusOr<CudaLimits> limits = measure();
  ASSERT_TRUE(limits.isOk()) << limits.status().message();
  // Milliseconds are floats, hence the tolerance.
  EXPECT_NEAR(limits->memoryBytesPerSecond, 2 * 460e9, 1e6);
  EXPECT_NEAR(limits->toDeviceBytesPerSecond, 26e9, 1e5);
  EXPECT_NEAR(limits->toHostBytesPerSecond, 25e9, 1e5);
  EXPECT_EQ(limits->freeBytes, uint64_t(23) << 30);
  // Latency is measured with the host's clock; calls of the fake take almost no
  // time.
  EXPECT_GT(limits->copyLatencySeconds, 0);
  EXPECT_LT(limits->copyLatencySeconds, 1e-2);
}

TEST_F(CudaCalibrateTest, RepeatsForAsLongAsAsked) {
  cuda.gpus.resize(1);
  StatusOr<CudaDriver> driver = CudaDriver::load(MOE_FAKE_CUDA);
  ASSERT_TRUE(driver.isOk());
  StatusOr<CudaGpu> device = driver->describe(0);
  ASSERT_TRUE(device.isOk());
  ASSERT_TRUE(measureCudaDevice(*driver, *device, {.seconds = 0}).isOk());
  EXPECT_EQ(cuda.calls["cuMemcpyDtoDAsync_v2"], 3 * 8);
  cuda.calls.clear();
  // 8 copies of 288 MiB, four times L2, take 5.25 ms.
  ASSERT_TRUE(measureCudaDevice(*driver, *device, {.seconds = 0.05}).isOk());
  EXPECT_EQ(cuda.calls["cuMemcpyDtoDAsync_v2"], 10 * 8);
}

TEST_F(CudaCalibrateTest, EveryFailingCallIsReportedAndNothingLeaks) {
  cuda.gpus.resize(1);
  for (const char *call :
       {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate",
        "cuEventCreate", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemHostAlloc",
        "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"}) {
    cuda.failures = {{call, cu::kOutOfMemory}};
    StatusOr<CudaLimits> limits = measure();
    ASSERT_FALSE(limits.isOk()) << call;
    EXPECT_EQ(limits.status().code(), StatusCode::DoesNotFit) << call;
    EXPECT_THAT(limits.status().message(),
                HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2: out of memory)"));
    EXPECT_GT(cuda.calls[call], 0);
    EXPECT_EQ(cuda.live, 0) << call;
    EXPECT_EQ(cuda.allocatedBytes, 0u) << call;
  }
}

TEST_F(CudaCalibrateTest, AFullDeviceIsNotFilledFurther) {
  cuda.gpus.resize(1);
  cuda.gpus[0].usedBytes = cuda.gpus[0].memoryBytes - (uint64_t(500) << 20);
  StatusOr<CudaLimits> limits = measure();
  ASSERT_FALSE(limits.isOk());
  EXPECT_EQ(limits.status().code(), StatusCode::DoesNotFit);
  EXPECT_EQ(limits.status().message(),
            "500.00 MiB of its memory are free, measuring needs 576.00 MiB");
  EXPECT_EQ(cuda.calls["cuMemAlloc_v2"], 0);
}

TEST_F(CudaCalibrateTest, ZeroTimeGivesNoRate) {
  cuda.gpus.resize(1);
  cuda.gpus[0].withinDevice = std::numeric_limits<double>::infinity();
  StatusOr<CudaLimits> limits = measure();
  ASSERT_FALSE(limits.isOk());
  EXPECT_EQ(limits.status().message(),
            "copying within the device: the driver says that it took 0 ms");
}

TEST(CudaPeak, RatesAreThoseThatTheVendorGives) {
  // The vendor's figures for an RTX 4090: 661 and 165 T operations per second,
  // 128 multiprocessors at 2.52 GHz.
  std::optional<CudaPeak> ada = cudaPeak(89);
  ASSERT_TRUE(ada);
  EXPECT_NEAR(ada->int8Ops * 128 * 2.52e9, 661e12, 1e12);
  EXPECT_NEAR(ada->floatOps * 128 * 2.52e9, 165e12, 1e12);
  // Peaks of an H100, whose multiprocessors are four times as wide.
  EXPECT_NEAR(cudaPeak(90)->floatOps * 132 * 1.83e9, 989e12, 1e12);
}

TEST(CudaPeak, NeighboursStandInWithinAGeneration) {
  EXPECT_EQ(cudaPeak(87)->int8Ops, cudaPeak(86)->int8Ops);
  EXPECT_EQ(cudaPeak(121)->int8Ops, cudaPeak(120)->int8Ops);
  // A B300 has given up integers for FP4.
  EXPECT_NEAR(cudaPeak(103)->int8Ops * 148 * 1.92e9, 150e12, 5e12);
  EXPECT_EQ(cudaPeak(103)->floatOps, cudaPeak(100)->floatOps);
  for (int unknown : {0, 61, 70, 110, 130})
    EXPECT_FALSE(cudaPeak(unknown)) << unknown;
}

class PciLinkTest : public testing::Test {
protected:
  void describe(const std::string &speed, const std::string &width) {
    std::string device = folder.path() + "/0000:0a:00.0";
    std::filesystem::create_directories(device);
    std::ofstream(device + "/current_link_speed") << speed << "\n";
    std::ofstream(device + "/current_link_width") << width << "\n";
  }
  std::string link() { return pciLink("0000:0A:00.0", folder.path()); }

  moetest::TempDir folder;
};

TEST_F(PciLinkTest, SpeedAndWidth) {
  describe("16.0 GT/s PCIe", "8");
  EXPECT_EQ(link(), "PCIe 16.0 GT/s x8");
  describe("8 GT/s", "16");
  EXPECT_EQ(link(), "PCIe 8 GT/s x16");
}

TEST_F(PciLinkTest, UnknownLinksHaveNoRate) {
  EXPECT_EQ(link(), "");
  EXPECT_EQ(pciLink("", folder.path()), "");
  describe("Unknown", "255");
  EXPECT_EQ(link(), "");
}

} // namespace
