//===- Gpu.h - The GPU on which tests of CUDA kernels run -------*- C++ -*-===//
//
// One interface for two kinds: a GPU behind its driver, and the software GPU.
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
  /// Whether instructions are interpreted, so that speed cannot be measured and
  /// large tests take minutes.
  virtual bool isSoftware() const = 0;

  virtual uint64_t allocate(size_t bytes, const std::string &name) = 0;
  virtual void free(uint64_t address) = 0;
  virtual void copyIn(uint64_t to, const void *from, size_t bytes) = 0;
  virtual void copyOut(void *to, uint64_t from, size_t bytes) = 0;

  /// Runs the launch to its end. Returns "" or what is wrong.
  virtual std::string launch(const cuda::Launch &launch,
                             const moec::KernelImage &image) = 0;

  /// Returns the seconds of one of `repeats` runs of `launches` captured in a
  /// graph; 0 if time has no meaning.
  virtual double time(const std::vector<cuda::Launch> &launches,
                      const std::vector<moec::KernelImage> &images,
                      int repeats) {
    return 0;
  }
};

/// Opens the GPU of the driver. If the result is null, `why` says the reason.
std::unique_ptr<Gpu> openDriverGpu(std::string &why);
/// Opens a software GPU; null if this CPU cannot run one.
std::unique_ptr<Gpu> openSoftGpu(std::string &why);
/// Compute capability of the software GPU, from the option `--arch 103`.
int &softArch();

/// The GPU and compiler of these tests, opened once: null if there is neither a
/// GPU nor a software GPU, or no NVRTC; `why` says what is missing.
struct GpuTest {
  std::unique_ptr<Gpu> gpu;
  std::unique_ptr<moec::KernelCompiler> compiler;
  std::string why;

  static GpuTest &get();
  /// Compiles and runs, with the copies before launches; what they copy is on
  /// the GPU here. Errors become failures of the test.
  void run(const std::vector<cuda::Launch> &launches);
  std::vector<moec::KernelImage>
  imagesOf(const std::vector<cuda::Launch> &launches);
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_GPU_H
