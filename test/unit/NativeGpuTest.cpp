// The description of this machine's GPUs in a target.
#include "compiler/Machine/Targets/NativeGpu.h"

#include "compiler/Machine/Targets/NativeTarget.h"
#include "compiler/Machine/Targets/TargetJson.h"
#include "test/support/TempDir.h"
#include "test/unit/CudaTestFixture.h"

#include <cstdlib>
#include <gmock/gmock.h>

using namespace moec;
using moert::StatusOr;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace cu = moert::cu;

namespace {

class NativeGpuTest : public moetest::CudaTest {
protected:
  NativeGpus measure(const std::string &library = MOE_FAKE_CUDA) {
    return measureGpus(library, {.seconds = 0}, [this](const std::string &gpu) {
      announced.push_back(gpu);
    });
  }
  std::vector<std::string> announced;
};

TEST_F(NativeGpuTest, WithoutAGpuThereIsNothingToSay) {
  for (const char *library : {"libcuda-that-nobody-has.so.1", MOE_FAKE_CUDA}) {
    NativeGpus gpus = measure(library);
    EXPECT_THAT(gpus.devices, IsEmpty());
    EXPECT_THAT(gpus.notes, IsEmpty());
  }
}

TEST_F(NativeGpuTest, ADriverThatFailsIsNoted) {
  EXPECT_THAT(measure(MOE_FAKE_CUDA_OLD).notes,
              ElementsAre(HasSubstr("GPUs are left out: ")));
  cuda.failures["cuInit"] = cu::Result(803);
  EXPECT_THAT(measure().notes, ElementsAre(HasSubstr("(803: ")));
}

TEST_F(NativeGpuTest, ADeviceInTheUnitsOfATarget) {
  cuda.gpus.resize(1);
  NativeGpus gpus = measure();
  EXPECT_THAT(gpus.notes, IsEmpty());
  EXPECT_THAT(announced, ElementsAre("GPU 0 (Fake RTX 4090)"));
  ASSERT_EQ(gpus.devices.size(), 1u);
  const DeviceDesc &gpu = gpus.devices[0];
  EXPECT_EQ(gpu.kind, DeviceKind::Cuda);
  EXPECT_EQ(gpu.title, "Fake RTX 4090");
  EXPECT_EQ(gpu.arch, 89);
  EXPECT_EQ(gpu.cores, 128);
  EXPECT_EQ(gpu.memoryBytes, uint64_t(24) << 30);
  // 1 GiB is in use, and the headroom is added.
  EXPECT_EQ(gpu.reservedBytes, uint64_t(1536) << 20);
  EXPECT_NEAR(gpu.read.perSecond, 920e9, 1e6);
  // The rate of the slower direction.
  EXPECT_NEAR(gpu.link.perSecond, 25e9, 1e5);
  EXPECT_GT(gpu.linkLatencySeconds, 0);
  EXPECT_NEAR(gpu.int8.perSecond, 660.6e12, 1e11);
  EXPECT_NEAR(gpu.float32.perSecond, 165.2e12, 1e11);
  EXPECT_THAT(gpu.source, HasSubstr("91 % of the 1008 GB/s"));
  EXPECT_THAT(gpu.source, HasSubstr("26.0 GB/s to the device and 25.0 GB/s"));
  EXPECT_THAT(gpu.source, HasSubstr("computed, not measured: 128 SMs x 2048"));
}

TEST_F(NativeGpuTest, AnUnusableGpuIsLeftOutAndTheOtherStays) {
  struct Case {
    std::function<void(moetest::FakeGpu &)> spoil;
    const char *why;
  };
  const Case cases[] = {
      {[](auto &gpu) { gpu.attributes[cu::kCapabilityMajor] = 5; },
       "has compute capability 5.9"},
      {[](auto &gpu) { gpu.usedBytes = gpu.memoryBytes; }, "0 B of its memory"},
      {[](auto &gpu) { gpu.attributes[cu::kMultiprocessors] = 0; },
       "\"cores\" is missing"},
      {[](auto &gpu) { gpu.attributes[cu::kClockKhz] = 0; },
       "\"int8_tops\" is missing"},
      {[](auto &gpu) { gpu.withinDevice = 1e18; }, "\"read_gbps\" is "},
      {[](auto &gpu) { gpu.toHost = 1; }, "\"link_gbps\" is "},
  };
  for (const Case &spoilt : cases) {
    cuda = {};
    cuda.gpus.resize(2);
    cuda.gpus[0].name = "Spoilt\n";
    spoilt.spoil(cuda.gpus[0]);
    NativeGpus gpus = measure();
    ASSERT_EQ(gpus.devices.size(), 1u) << spoilt.why;
    EXPECT_EQ(gpus.devices[0].title, "Fake RTX 4090");
    EXPECT_THAT(gpus.notes,
                ElementsAre(AllOf(HasSubstr("GPU 0 (Spoilt\\x0a) is left out"),
                                  HasSubstr(spoilt.why))));
  }
}

TEST_F(NativeGpuTest, AFailingMeasurementLeavesOutEveryGpuWithItsReason) {
  cuda.gpus.resize(2);
  cuda.failures["cuMemHostAlloc"] = cu::kOutOfMemory;
  NativeGpus gpus = measure();
  EXPECT_THAT(gpus.devices, IsEmpty());
  EXPECT_THAT(gpus.notes,
              ElementsAre(HasSubstr("GPU 0 (Fake RTX 4090) is left out: "
                                    "allocating 32.00 MiB of pinned memory: "
                                    "CUDA_ERROR_OUT_OF_MEMORY"),
                          HasSubstr("GPU 1 (Fake RTX 4090) is left out")));
}

TEST_F(NativeGpuTest, ATargetHasTheGpusFirstAndReadsBack) {
  cuda.gpus.resize(2);
  cuda.gpus[1].name = "Second";
  CpuMeasurement cpu = CpuMeasurement::ofThisMachine();
  cpu.kernels = {}; // GPUs have no such kernels, and measuring takes seconds.
  StatusOr<Calibration> calibration = calibrateNative(
      {}, {.seconds = 0, .cudaLibrary = MOE_FAKE_CUDA, .cpu = cpu});
  ASSERT_TRUE(calibration.isOk()) << calibration.status().message();
  const TargetDesc *target = &calibration->target;
  ASSERT_EQ(target->devices.size(), 3u);
  EXPECT_EQ(target->devices[0].name, "gpu0");
  EXPECT_EQ(target->devices[1].name, "gpu1");
  EXPECT_EQ(target->devices[1].title, "Second");
  EXPECT_EQ(target->host().kind, DeviceKind::Cpu);

  auto devices = parseDevices(toJson(*target), "native.json");
  ASSERT_TRUE(devices.isOk()) << devices.status().message();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].arch, 89);
  EXPECT_EQ((*devices)[0].source, target->devices[0].source);
  EXPECT_NEAR((*devices)[0].linkLatencySeconds,
              target->devices[0].linkLatencySeconds, 1e-12);
}

// Each test has its own cache folder.
class NativeWithGpuTest : public NativeGpuTest {
protected:
  void SetUp() override {
    NativeGpuTest::SetUp();
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
    cpu_.limits = [this](int, double) -> StatusOr<moert::CpuLimits> {
      ++measured_;
      moert::CpuLimits limits;
      limits.readBytesPerSecond = 1e10;
      limits.int8OpsPerSecond = limits.floatOpsPerSecond = 1e11;
      return limits;
    };
  }
  /// Returns the titles of native's GPUs.
  std::vector<std::string> gpus() {
    StatusOr<TargetDesc> target = nativeTarget(cpu_, {}, MOE_FAKE_CUDA);
    EXPECT_TRUE(target.isOk()) << target.status().message();
    if (!target)
      return {};
    EXPECT_EQ(target->host().kind, DeviceKind::Cpu);
    notes_ = target->notes;
    std::vector<std::string> titles;
    for (const DeviceDesc &device : target->devices)
      if (device.kind == DeviceKind::Cuda)
        titles.push_back(device.title);
    return titles;
  }

  moetest::TempDir folder_;
  CpuMeasurement cpu_;
  int measured_ = 0;
  std::vector<std::string> notes_;
};

TEST_F(NativeWithGpuTest, NativeHasTheGpusOfThisMachineAndKeepsThem) {
  cuda.gpus.resize(1);
  EXPECT_THAT(gpus(), ElementsAre("Fake RTX 4090"));
  EXPECT_THAT(notes_, IsEmpty());
  cuda.calls.clear();
  EXPECT_THAT(gpus(), ElementsAre("Fake RTX 4090"));
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(cuda.calls["cuMemHostAlloc"], 0);
}

TEST_F(NativeWithGpuTest, AGpuThatCameOrWentIsNoticed) {
  EXPECT_THAT(gpus(), IsEmpty());
  cuda.gpus.resize(1);
  EXPECT_THAT(gpus(), ElementsAre("Fake RTX 4090"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr(
                          "it has no GPU, this machine Fake RTX 4090")));
  cuda.gpus.clear();
  EXPECT_THAT(gpus(), IsEmpty());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr(
                          "it has Fake RTX 4090, this machine no GPU")));
  EXPECT_EQ(measured_, 3);
}

// A GPU that the driver calls integrated has the host's memory, in the saved
// description too.
TEST_F(NativeWithGpuTest, AnIntegratedGpuSharesTheHostsMemory) {
  cuda.gpus.resize(1);
  cuda.gpus[0].attributes[cu::kIntegrated] = 1;
  for (int i = 0; i < 2; ++i) {
    StatusOr<TargetDesc> target = nativeTarget(cpu_, {}, MOE_FAKE_CUDA);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    ASSERT_EQ(target->devices.size(), 2u);
    const DeviceDesc &gpu = target->devices[0];
    EXPECT_TRUE(gpu.sharesMemory);
    EXPECT_EQ(gpu.memoryBytes, target->host().memoryBytes);
    EXPECT_EQ(gpu.budgetBytes(), target->host().budgetBytes());
    EXPECT_EQ(gpu.link.perSecond, 0);
    EXPECT_GT(gpu.linkLatencySeconds, 0);
    EXPECT_THAT(gpu.source, HasSubstr("no link: the driver says"));
    EXPECT_EQ(measured_, 1);
  }
}

} // namespace
