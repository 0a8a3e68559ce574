//===- ClockedGpu.h - A software GPU with a clock ---------------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_CLOCKEDGPU_H
#define MOE_TEST_KERNELS_CUDA_CLOCKEDGPU_H

#include "test/kernels/cuda/SoftwareGpu.h"
#include "test/softgpu/Clock.h"

namespace moek::test {

/// Predicts the time of each launch on a GPU of the table. Of large grids it
/// executes some blocks, so that results are wrong.
class ClockedGpu : public SoftwareGpu {
public:
  /// `budget`: instructions of warps after which no further block is executed.
  explicit ClockedGpu(const softgpu::GpuModel &model,
                      uint64_t budget = kBudget);

  static constexpr uint64_t kBudget = 12'000'000;

  std::string name() const override { return std::string(model_.name); }
  const softgpu::GpuModel &model() const { return model_; }
  std::string launch(const cuda::Launch &launch,
                     const moec::KernelImage &image) override;

  /// Lists stalls of at least so many cycles in times.
  void listStalls(int cycles) { leastStall_ = cycles; }
  /// The times of launches since the last call.
  std::vector<softgpu::LaunchTime> takeTimes() { return std::move(times_); }
  /// Compiles `launches`, runs them and returns the seconds of their graph.
  /// Errors become failures of the test.
  double secondsOf(const std::vector<cuda::Launch> &launches,
                   std::vector<softgpu::LaunchTime> *times = nullptr);

private:
  softgpu::LaunchResult run(const softgpu::Kernel &kernel,
                            const softgpu::LaunchShape &shape,
                            const void *argument) override;

  const softgpu::GpuModel &model_;
  uint64_t budget_;
  /// Whether all blocks of the next launch are executed.
  bool isWhole_ = false;
  int leastStall_ = 0;
  softgpu::SectorCache l2_;
  softgpu::Resources resources_; ///< Resources of the launch that runs.
  std::vector<softgpu::LaunchTime> times_;
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_CLOCKEDGPU_H
