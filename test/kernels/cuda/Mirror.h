//===- Mirror.h - Copies of a test's host memory on the GPU -----*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_MIRROR_H
#define MOE_TEST_KERNELS_CUDA_MIRROR_H

#include "test/kernels/cuda/Gpu.h"

namespace moek::test {

/// Copies of host memory between guards on the GPU, for one run of a kernel.
class Mirror {
public:
  explicit Mirror(Gpu &gpu) : gpu_(gpu) {}
  ~Mirror();
  Mirror(const Mirror &) = delete;

  /// Returns a copy of `bytes` that a kernel reads. Null stays null.
  template <class T> const T *in(const T *host, int64_t bytes) {
    return static_cast<const T *>(add(host, bytes, false));
  }
  /// Returns a copy that it writes: finish() copies it back.
  template <class T> T *out(T *host, int64_t bytes) {
    return static_cast<T *>(add(host, bytes, true));
  }
  /// Returns poisoned memory that exists on the GPU only.
  std::byte *workspace(int64_t bytes);

  /// Checks all guards, and that inputs are unchanged; copies outputs back.
  void finish();

private:
  struct Part {
    uint64_t base;
    int64_t bytes;
    void *host;
    bool isOutput;
  };
  void *add(const void *host, int64_t bytes, bool isOutput);

  Gpu &gpu_;
  std::vector<Part> parts_;
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_MIRROR_H
