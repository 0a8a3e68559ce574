#include "test/kernels/cuda/ClockedGpu.h"

#include <gtest/gtest.h>

namespace moek::test {

ClockedGpu::ClockedGpu(const softgpu::GpuModel &model, uint64_t budget)
    : SoftwareGpu({.arch = model.arch,
                   .isChecked = false,
                   .multiprocessors = model.multiprocessors}),
      model_(model), budget_(budget) {}

std::string ClockedGpu::launch(const cuda::Launch &launch,
                               const moec::KernelImage &image) {
  // In such a launch the block of a tile that ends last adds the sums of the
  // tile's other blocks. In a sample of the blocks hardly any tile has all of
  // its blocks, so that nothing would be added: all blocks are executed.
  isWhole_ = launch.kernel.entry.ends_with("_tail_here");
  resources_ = {image.registers, image.spilledBytes, image.sharedBytes};
  return SoftwareGpu::launch(launch, image);
}

softgpu::LaunchResult ClockedGpu::run(const softgpu::Kernel &kernel,
                                      const softgpu::LaunchShape &shape,
                                      const void *argument) {
  softgpu::Recording recording(model_);
  recording.l2 = &l2_;
  recording.budget = isWhole_ ? UINT64_MAX : budget_;
  recording.blocks = softgpu::sampleOrder(uint64_t(shape.grid[0]) *
                                          shape.grid[1] * shape.grid[2]);
  softgpu::LaunchResult result =
      gpu_.launch(kernel, shape, {&argument, 1}, nullptr, &recording);
  if (!result.finding)
    times_.push_back(
        softgpu::timeOf(kernel, shape, resources_, recording, leastStall_));
  return result;
}

double ClockedGpu::secondsOf(const std::vector<cuda::Launch> &launches,
                             std::vector<softgpu::LaunchTime> *times) {
  times_.clear();
  for (const cuda::Launch &launch : launches) {
    moert::StatusOr<moec::KernelImage> image =
        GpuTest::get().compiler->compile({launch.kernel, arch()});
    EXPECT_TRUE(image.isOk()) << image.status().message();
    if (image) {
      std::string wrong = this->launch(launch, *image);
      EXPECT_EQ(wrong, "") << launch.kernel.entry;
    }
  }
  if (times)
    *times = times_;
  return softgpu::secondsOfGraph(times_, model_);
}

} // namespace moek::test
