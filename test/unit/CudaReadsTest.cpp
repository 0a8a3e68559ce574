// Calibration's kernel, which reads the host's memory, on a GPU.

#include "runtime/device/cuda/CudaCalibrate.h"
#include "test/unit/CudaDeviceFixture.h"

using namespace moert;
using namespace moetest;

namespace {

class CudaReadsTest : public ::testing::Test {
protected:
  static void begin(std::map<std::string, int> failures = {}) {
    softcuda::Options options;
    options.failures = std::move(failures);
    options.gpus[0].l2Bytes = 1 << 20; // The launches read more than L2 holds.
    softcuda::reset(options);
  }
  static StatusOr<CudaLimits> measure() {
    MOE_ASSIGN_OR_RETURN(CudaDriver driver, CudaDriver::load(driverLibrary()));
    MOE_ASSIGN_OR_RETURN(CudaGpu gpu, driver.describe(0));
    return measureCudaDevice(driver, gpu, {.seconds = 0});
  }
};

TEST_F(CudaReadsTest, AKernelReadsAllOfTheHostsMemory) {
  begin();
  StatusOr<CudaLimits> limits = measure();
  ASSERT_TRUE(limits.isOk()) << limits.status().message();
  EXPECT_GT(limits->kernelReadBytesPerSecond, 0);
  if (isOnDriver())
    return;
  softcuda::Totals totals = softcuda::totals();
  const softgpu::Counters &read = totals.kernels.at("readHost");
  // Each launch reads every byte once, as whole sectors.
  uint64_t launches = totals.kernelLaunches.at("readHost");
  EXPECT_GE(launches, 24u);
  EXPECT_EQ(read.globalLoads.usefulBytes, launches << 25);
  EXPECT_EQ(read.globalLoads.sectors * 32, launches << 25);
  EXPECT_THAT(softcuda::findings(), ::testing::IsEmpty());
  EXPECT_THAT(softcuda::live(), ::testing::IsEmpty());
}

TEST_F(CudaReadsTest, ADriverWithoutACompilerMeasuresCopiesAlone) {
  SOFTWARE_ONLY();
  for (const char *call :
       {"cuModuleLoadData", "cuMemHostGetDevicePointer_v2"}) {
    begin({{call, 218}});
    StatusOr<CudaLimits> limits = measure();
    ASSERT_TRUE(limits.isOk()) << call << ": " << limits.status().message();
    EXPECT_EQ(limits->kernelReadBytesPerSecond, 0) << call;
    EXPECT_GT(limits->toDeviceBytesPerSecond, 0) << call;
    EXPECT_THAT(softcuda::live(), ::testing::IsEmpty()) << call;
  }
}

TEST_F(CudaReadsTest, ALaunchThatFailsIsReported) {
  SOFTWARE_ONLY();
  begin({{"cuLaunchKernel", 719}});
  StatusOr<CudaLimits> limits = measure();
  ASSERT_FALSE(limits.isOk());
  EXPECT_THAT(limits.status().message(),
              ::testing::HasSubstr("reading the host's memory by a kernel"));
  EXPECT_THAT(softcuda::live(), ::testing::IsEmpty());
}

} // namespace
