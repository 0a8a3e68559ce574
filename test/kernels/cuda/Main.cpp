//===- Main.cpp - Runs tests on a GPU or on the software GPU --------------===//

#include "kernels/cuda/LaunchGemm.h"
#include "test/kernels/GemmProblem.h"
#include "test/kernels/cuda/Gpu.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

namespace moek::test {

namespace {
class NeedsGpu : public testing::Environment {
  void SetUp() override {
    GpuTest &test = GpuTest::get();
    if (!test.gpu)
      GTEST_SKIP() << test.why;
    if (cuda::hasPanelProducts(test.gpu->arch()))
      panelRounding = kPanelRounding;
    std::printf("on %s, sm_%d\n", test.gpu->name().c_str(), test.gpu->arch());
  }
};
} // namespace

} // namespace moek::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string_view(argv[i]) == "--arch")
      moek::test::softArch() = std::atoi(argv[i + 1]);
  testing::AddGlobalTestEnvironment(new moek::test::NeedsGpu);
  return RUN_ALL_TESTS();
}
