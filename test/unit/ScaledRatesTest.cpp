// Kernel rates that follow from those of another GPU of the same family.
#include "compiler/Machine/Targets/ScaledRates.h"

#include <gmock/gmock.h>
#include <random>

using namespace moec;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

DeviceDesc gpuWith(double read, double int8, double floats) {
  DeviceDesc device;
  device.model = "base";
  device.kind = DeviceKind::Cuda;
  device.read.perSecond = read;
  device.int8.perSecond = int8;
  device.float32.perSecond = floats;
  return device;
}

DeviceDesc baseGpu() {
  DeviceDesc base = gpuWith(1000, 100, 50);
  base.kernelBasis = Basis::Simulated;
  base.overheads.instruction = 1e-6;
  base.kernels = {{"gemm_q4_0_cuda", "", {1, 512}, {1000, 10}, {}},
                  {"gemm_q4_0_cuda", "call", {1}, {7}, {}},
                  {"attention_cuda", "f16 one bytes", {1}, {1000}, {}},
                  {"attention_cuda", "f16 many", {1}, {5000}, {}}};
  return base;
}

TEST(ScaledRatesTest, ReadingFollowsTheMemoryAndTheRestTheOperations) {
  DeviceDesc device = gpuWith(500, 400, 200);
  takeScaledRates(baseGpu(), device);
  ASSERT_EQ(device.kernels.size(), 4u);
  // 1 % of the time of the second rate is reading.
  EXPECT_THAT(device.kernels[0].memory,
              ElementsAre(500, testing::DoubleEq(10 / (0.01 * 2 + 0.99 / 4))));
  EXPECT_THAT(device.kernels[1].memory, ElementsAre(7));
  EXPECT_THAT(device.kernels[2].memory, ElementsAre(500));
  EXPECT_THAT(device.kernels[3].memory, ElementsAre(20000));
  EXPECT_TRUE(device.hasKernelList);
  EXPECT_EQ(device.kernelBasis, Basis::Simulated);
  EXPECT_EQ(device.overheads.instruction, 1e-6);
  EXPECT_THAT(device.source, HasSubstr("the base's rates, scaled"));
}

TEST(ScaledRatesTest, ADeviceOfTheSamePeaksHasTheSameRates) {
  DeviceDesc base = baseGpu(), device = gpuWith(1000, 100, 50);
  takeScaledRates(base, device);
  EXPECT_EQ(device.kernels, base.kernels);
}

TEST(ScaledRatesTest, HigherPeaksGiveNoLowerRate) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> peak(0.1, 10), more(1, 3);
  for (int i = 0; i < 1000; ++i) {
    DeviceDesc some =
        gpuWith(1000 * peak(random), 100 * peak(random), 50 * peak(random));
    DeviceDesc better = some;
    for (Peak *of : {&better.read, &better.int8, &better.float32})
      of->perSecond *= more(random);
    takeScaledRates(baseGpu(), some);
    takeScaledRates(baseGpu(), better);
    for (size_t k = 0; k < some.kernels.size(); ++k)
      for (size_t at = 0; at < some.kernels[k].memory.size(); ++at)
        EXPECT_GE(better.kernels[k].memory[at],
                  some.kernels[k].memory[at] * (1 - 1e-12));
  }
}

// Each shipped GPU has rates, its own or those of its family.
TEST(ScaledRatesTest, EveryShippedGpuHasKernelRates) {
  for (const std::string &name : targetNames()) {
    if (name == "native")
      continue;
    auto target = describeParts(name);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    const DeviceDesc &device = target->devices.front();
    EXPECT_EQ(!device.kernels.empty(), device.kind == DeviceKind::Cuda) << name;
  }
}

} // namespace
