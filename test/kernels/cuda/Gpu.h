//===- Gpu.h - What tests of CUDA kernels run them on -----------*- C++ -*-===//
//
// One interface, two kinds: a GPU behind its driver, and test/softgpu.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_GPU_H
#define MOE_TEST_KERNELS_CUDA_GPU_H

#include "compiler/Cuda/KernelCompiler.h"

namespace moek::test {

class Gpu {
public:
  virtual ~Gpu() = default;

  virtual std::string name() const = 0;
  virtual int arch() const = 0;
  virtual int multiprocessors() const = 0;
  /// Its instructions are interpreted: tests of speed make no sense, and large
  /// ones take minutes.
  virtual bool isSoftware() const = 0;

  virtual uint64_t allocate(size_t bytes, const std::string &name) = 0;
  virtual void free(uint64_t address) = 0;
  virtual void copyIn(uint64_t to, const void *from, size_t bytes) = 0;
  virtual void copyOut(void *to, uint64_t from, size_t bytes) = 0;

  /// Runs to the end. "" or what is wrong.
  virtual std::string launch(const cuda::Launch &launch,
                             const moec::KernelImage &image) = 0;

  /// Seconds of one of `repeats` runs of `launches` captured in a graph; 0
  /// where time means nothing.
  virtual double time(const std::vector<cuda::Launch> &launches,
                      const std::vector<moec::KernelImage> &images,
                      int repeats) {
    return 0;
  }
};

/// The GPU behind the driver, or null and why not.
std::unique_ptr<Gpu> openDriverGpu(std::string &why);
/// Null where this CPU cannot interpret one.
std::unique_ptr<Gpu> openSoftGpu(std::string &why);
/// What a software GPU is, from the command line's `--arch 103`.
int &softArch();

/// What these tests use, opened once: null where there is neither a GPU nor a
/// software GPU, or no NVRTC; `why` says what is missing.
struct GpuTest {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<moec::KernelCompiler> compiler;
  std::string why;

  static GpuTest &get();
  /// Compiles and runs; failures are the test's.
  void run(const std::vector<cuda::Launch> &launches);
  std::vector<moec::KernelImage>
  imagesOf(const std::vector<cuda::Launch> &launches);
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_GPU_H
