#include "test/kernels/cuda/Gpu.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace moek::test {

GpuTest &GpuTest::get() {
  static GpuTest *test = [] {
    auto *test = new GpuTest;
    moert::StatusOr<moec::Nvrtc> nvrtc = moec::Nvrtc::open();
    if (!nvrtc) {
      test->why = nvrtc.status().message();
      return test;
    }
    test->gpu = openDriverGpu(test->why);
    if (!test->gpu)
      test->gpu = openSoftGpu(test->why);
    if (test->gpu) {
      // The cache is next to the test program, because it belongs to a build
      // like its objects.
      std::error_code error;
      auto self = std::filesystem::read_symlink("/proc/self/exe", error);
      test->compiler = std::make_unique<moec::KernelCompiler>(
          *std::move(nvrtc),
          error ? "" : (self.parent_path() / "cuda-kernels").string());
    }
    return test;
  }();
  return *test;
}

std::vector<moec::KernelImage>
GpuTest::imagesOf(const std::vector<cuda::Launch> &launches) {
  std::vector<moec::KernelJob> jobs;
  for (const cuda::Launch &launch : launches)
    jobs.push_back({launch.kernel, gpu->arch()});
  auto images = compiler->compile(jobs);
  EXPECT_TRUE(images.isOk()) << images.status().message();
  return images ? *std::move(images) : std::vector<moec::KernelImage>();
}

void GpuTest::run(const std::vector<cuda::Launch> &launches) {
  std::vector<moec::KernelImage> images = imagesOf(launches);
  for (size_t i = 0; i < images.size(); ++i) {
    for (const cuda::HostCopy &copy : launches[i].copies) {
      std::vector<uint8_t> bytes(size_t(copy.bytes));
      gpu->copyOut(bytes.data(), uint64_t(uintptr_t(copy.from)), bytes.size());
      gpu->copyIn(uint64_t(uintptr_t(copy.to)), bytes.data(), bytes.size());
    }
    std::string wrong = gpu->launch(launches[i], images[i]);
    ASSERT_EQ(wrong, "") << launches[i].kernel.entry;
  }
}

} // namespace moek::test
