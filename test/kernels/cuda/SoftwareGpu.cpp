#include "test/kernels/cuda/SoftwareGpu.h"

namespace moek::test {

std::string SoftwareGpu::launch(const cuda::Launch &launch,
                                const moec::KernelImage &image) {
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
  softgpu::LaunchResult result = run(*kernel, shape, launch.args.data());
  return result.finding ? result.finding->text : "";
}

int &softArch() {
  static int arch = softgpu::SoftGpuOptions().arch;
  return arch;
}

std::unique_ptr<Gpu> openSoftGpu(std::string &why) {
  if (!softgpu::isSoftGpuSupported()) {
    why = "this CPU cannot run the software GPU";
    return nullptr;
  }
  return std::make_unique<SoftwareGpu>(
      softgpu::SoftGpuOptions{.arch = softArch()});
}

} // namespace moek::test
