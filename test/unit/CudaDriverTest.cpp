// Opens the driver, and describes its devices.
#include "runtime/device/cuda/CudaContext.h"
#include "test/unit/CudaTestFixture.h"

#include <gmock/gmock.h>

using namespace moert;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

using CudaDriverTest = moetest::CudaTest;

Status loadStatus(const std::string &library = MOE_FAKE_CUDA) {
  return CudaDriver::load(library).status();
}

TEST_F(CudaDriverTest, NoLibraryIsAMachineWithoutADriver) {
  Status status = loadStatus("libcuda-that-nobody-has.so.1");
  EXPECT_EQ(status.code(), StatusCode::WrongMachine);
  EXPECT_THAT(status.message(),
              HasSubstr("no CUDA driver: libcuda-that-nobody-has.so.1"));
}

TEST_F(CudaDriverTest, NoDeviceInEitherWay) {
  // A driver may report no devices, or fail to start.
  EXPECT_EQ(loadStatus().code(), StatusCode::WrongMachine);
  cuda.failures["cuInit"] = cu::kNoDevice;
  Status status = loadStatus();
  EXPECT_EQ(status.code(), StatusCode::WrongMachine);
  EXPECT_THAT(status.message(), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST_F(CudaDriverTest, AnOldDriverIsNamedWithWhatItLacks) {
  Status status = loadStatus(MOE_FAKE_CUDA_OLD);
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("lacks cuEventElapsedTime: its driver is older"));
}

TEST_F(CudaDriverTest, AFailedStartHasTheDriversCode) {
  // The fake does not know this error.
  cuda.failures["cuInit"] = cu::Result(999);
  Status status = loadStatus();
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_EQ(status.message(), "starting the CUDA driver: an unknown CUDA error "
                              "(999: no description)");
  cuda.failures = {{"cuDeviceGetCount", cu::Result(3)}};
  EXPECT_THAT(loadStatus().message(), StartsWith("counting GPUs: "));
}

TEST_F(CudaDriverTest, DescribesEachDevice) {
  cuda.gpus.resize(2);
  cuda.gpus[1].name = "Fake H200";
  cuda.gpus[1].attributes = {{cu::kCapabilityMajor, 12},
                             {cu::kCapabilityMinor, 1},
                             {cu::kIntegrated, 1},
                             {cu::kMultiprocessors, -1}};
  StatusOr<CudaDriver> driver = CudaDriver::load(MOE_FAKE_CUDA);
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  ASSERT_EQ(driver->deviceCount(), 2);

  StatusOr<CudaGpu> first = driver->describe(0);
  ASSERT_TRUE(first.isOk()) << first.status().message();
  EXPECT_EQ(first->handle, 0);
  EXPECT_EQ(first->name, "Fake RTX 4090");
  EXPECT_EQ(first->pciAddress, "0000:01:00.0");
  EXPECT_EQ(first->arch, 89);
  EXPECT_EQ(first->multiprocessors, 128);
  EXPECT_EQ(first->memoryBytes, uint64_t(24) << 30);
  EXPECT_EQ(first->l2Bytes, 72u << 20);
  EXPECT_DOUBLE_EQ(first->clockHz, 2.52e9);
  EXPECT_FALSE(first->sharesHostMemory);
  EXPECT_DOUBLE_EQ(first->peakBytesPerSecond(), 2 * 10.501e9 * 48);

  StatusOr<CudaGpu> second = driver->describe(1);
  ASSERT_TRUE(second.isOk()) << second.status().message();
  EXPECT_EQ(second->handle, 1);
  EXPECT_EQ(second->name, "Fake H200");
  EXPECT_EQ(second->arch, 121);
  EXPECT_TRUE(second->sharesHostMemory);
  EXPECT_EQ(second->multiprocessors, 0);
  EXPECT_EQ(second->peakBytesPerSecond(), 0);
}

TEST_F(CudaDriverTest, MissingAttributesAreZeroOrAnError) {
  cuda.gpus.resize(1);
  StatusOr<CudaDriver> driver = CudaDriver::load(MOE_FAKE_CUDA);
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  for (const char *call : {"cuDeviceGetAttribute", "cuDeviceGetPCIBusId"}) {
    cuda.failures = {{call, cu::Result(1)}};
    EXPECT_TRUE(driver->describe(0).isOk()) << call;
  }
  for (const char *call :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2"}) {
    cuda.failures = {{call, cu::Result(1)}};
    EXPECT_FALSE(driver->describe(0).isOk()) << call;
  }
}

TEST_F(CudaDriverTest, AContextIsCurrentWhileItLives) {
  cuda.gpus.resize(1);
  StatusOr<CudaDriver> driver = CudaDriver::load(MOE_FAKE_CUDA);
  ASSERT_TRUE(driver.isOk()) << driver.status().message();
  {
    auto context = CudaContext::enter(*driver, 0);
    ASSERT_TRUE(context.isOk()) << context.status().message();
    EXPECT_EQ(cuda.live, 2); // The context was retained and pushed.
    auto memory = (*context)->allocate(1 << 20);
    ASSERT_TRUE(memory.isOk()) << memory.status().message();
    EXPECT_EQ(*(*context)->freeBytes(), (uint64_t(23) << 30) - (1 << 20));
    Status tooMuch = (*context)->allocate(uint64_t(23) << 30).status();
    EXPECT_EQ(tooMuch.code(), StatusCode::DoesNotFit);
    EXPECT_EQ(tooMuch.message(), "allocating 23.00 GiB of device memory: "
                                 "CUDA_ERROR_OUT_OF_MEMORY (2: out of memory)");
  }
  EXPECT_EQ(cuda.live, 0);
  cuda.failures["cuCtxPushCurrent_v2"] = cu::Result(201);
  EXPECT_FALSE(CudaContext::enter(*driver, 0).isOk());
}

} // namespace
