//===- SoftwareGpu.cpp - test/softgpu behind the tests' interface ---------===//

#include "test/kernels/cuda/Gpu.h"
#include "test/softgpu/SoftGpu.h"

#include <map>

namespace moek::test {

namespace {
class SoftwareGpu : public Gpu {
public:
  SoftwareGpu() : gpu_(softgpu::SoftGpuOptions{}) {}

  std::string name() const override { return "software GPU"; }
  int arch() const override { return options().arch; }
  int multiprocessors() const override { return options().multiprocessors; }
  bool isSoftware() const override { return true; }

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
                     const moec::KernelImage &image) override {
    auto &program = programs_[image.ptx];
    if (!program) {
      auto loaded = gpu_.load(image.ptx);
      if (!loaded)
        return loaded.status().message();
      program = *std::move(loaded);
    }
    const softgpu::Kernel *kernel = program->find(launch.kernel.entry);
    if (!kernel)
      return "no kernel of that name";
    softgpu::LaunchShape shape;
    for (int i = 0; i < 3; ++i)
      shape.grid[i] = launch.grid[i];
    shape.threads[0] = launch.threads;
    shape.dynamicSharedBytes = launch.sharedBytes;
    const void *argument = launch.args.data();
    softgpu::LaunchResult result = gpu_.launch(*kernel, shape, {&argument, 1});
    return result.finding ? result.finding->text : "";
  }

private:
  const softgpu::SoftGpuOptions &options() const {
    return const_cast<softgpu::SoftGpu &>(gpu_).options();
  }
  softgpu::SoftGpu gpu_;
  std::map<std::string, std::unique_ptr<softgpu::Program>> programs_;
};
} // namespace

std::unique_ptr<Gpu> openSoftGpu(std::string &why) {
  if (!softgpu::isSoftGpuSupported()) {
    why = "this CPU cannot run the software GPU";
    return nullptr;
  }
  return std::make_unique<SoftwareGpu>();
}

} // namespace moek::test
