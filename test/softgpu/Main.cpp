//===- Main.cpp - Runs the tests on the software GPU or on silicon --------===//
//
// moe_softgpu_tests [--driver LIBRARY [--record FOLDER]] [--bits FILE]
//   [GoogleTest's options]
//
// --driver libcuda.so.1 runs the same kernels through that driver and compares
// every instruction of the sweep with the software GPU.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/TestGpu.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <string>

namespace {
class NeedsVectors : public ::testing::Environment {
  void SetUp() override {
    if (!softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "the software GPU needs a CPU with AVX2, FMA and F16C";
  }
};
} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new NeedsVectors);
  std::string library;
  for (int i = 1; i < argc; i += 2) {
    std::string_view flag = argv[i];
    std::string *value = flag == "--driver"   ? &library
                         : flag == "--record" ? &softgpu::silicon().record
                         : flag == "--bits"   ? &softgpu::silicon().bits
                                              : nullptr;
    if (!value || i + 1 == argc) {
      std::fprintf(stderr,
                   "usage: %s [--driver LIBRARY [--record FOLDER]] [--bits "
                   "FILE]\n",
                   argv[0]);
      return 2;
    }
    *value = argv[i + 1];
  }
  if (!library.empty()) {
    auto driver = softgpu::DriverGpu::open(library);
    if (!driver) {
      std::fprintf(stderr, "%s\n", driver.status().message().c_str());
      return 1;
    }
    std::printf("%s, sm_%d\n", (*driver)->name().c_str(), (*driver)->arch());
    softgpu::TestGpu::driver() = std::move(*driver);
  }
  int result = RUN_ALL_TESTS();
  softgpu::TestGpu::driver().reset();
  return result;
}
