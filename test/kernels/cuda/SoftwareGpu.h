//===- SoftwareGpu.h - The software GPU as a Gpu of tests -------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_SOFTWAREGPU_H
#define MOE_TEST_KERNELS_CUDA_SOFTWAREGPU_H

#include "test/kernels/cuda/Gpu.h"
#include "test/softgpu/SoftGpu.h"

#include <map>

namespace moek::test {

class SoftwareGpu : public Gpu {
public:
  explicit SoftwareGpu(const softgpu::SoftGpuOptions &options = {})
      : gpu_(options) {}

  std::string name() const override { return "software GPU"; }
  int arch() const override { return options().arch; }
  int multiprocessors() const override { return options().multiprocessors; }
  bool isSoftware() const override { return true; }
  softgpu::SoftGpuOptions &options() { return gpu_.options(); }

  uint64_t allocate(size_t bytes, const std::string &name) override {
    return gpu_.memory().allocate(bytes, name);
  }
  void free(uint64_t address) override { gpu_.memory().free(address); }
  void copyIn(uint64_t to, const void *from, size_t bytes) override {
    gpu_.memory().copyIn(to, from, bytes);
  }
  void copyOut(void *to, uint64_t from, size_t bytes) override {
    gpu_.memory().copyOut(to, from, bytes);
  }

  std::string launch(const cuda::Launch &launch,
                     const moec::KernelImage &image) override;

protected:
  /// Overridden by tests that need more results of a launch.
  virtual softgpu::LaunchResult run(const softgpu::Kernel &kernel,
                                    const softgpu::LaunchShape &shape,
                                    const void *argument) {
    return gpu_.launch(kernel, shape, {&argument, 1});
  }

  softgpu::SoftGpu gpu_;

private:
  const softgpu::SoftGpuOptions &options() const {
    return const_cast<softgpu::SoftGpu &>(gpu_).options();
  }
  std::map<std::string, std::unique_ptr<softgpu::Program>> programs_;
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_SOFTWAREGPU_H
