//===- TestGpu.h - The GPU that tests run on --------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_TESTGPU_H
#define MOE_TEST_SOFTGPU_TESTGPU_H

#include "test/softgpu/DriverGpu.h"

#include <memory>
#include <string>
#include <vector>

namespace softgpu {

/// Command-line options: the folder to which SweepTest writes results of a
/// driver's GPU, and the file from which it reads another GPU's results.
struct Silicon {
  std::string record, bits;
};
Silicon &silicon();

/// The software GPU, or the driver's GPU if the tests were started with a
/// driver: then modules are decoded here too, but run there.
class TestGpu {
public:
  /// The driver of this process; null: the software GPU runs, with `options`.
  static std::unique_ptr<DriverGpu> &driver();

  TestGpu();
  ~TestGpu();
  SoftGpuOptions &options() { return soft_.options(); }
  SoftGpu &software() { return soft_; }
  /// From here on modules run on the software GPU in any case, or on the driver
  /// again.
  void setSoftware(bool isSoftware) {
    driver_ = isSoftware ? nullptr : driver().get();
  }

  /// The program lives as long as this object.
  moert::StatusOr<const Program *> load(const std::string &ptx);
  LaunchResult launch(const Kernel &kernel, const LaunchShape &shape,
                      std::span<const void *const> arguments);
  template <class... Args>
  LaunchResult run(const Kernel &kernel, const LaunchShape &shape,
                   const Args &...args) {
    const void *pointers[] = {&args..., nullptr};
    return launch(kernel, shape, {pointers, sizeof...(Args)});
  }

  /// Access to the memory of either GPU.
  class Memory {
  public:
    explicit Memory(TestGpu &gpu) : gpu_(gpu) {}
    uint64_t allocate(uint64_t bytes, std::string name);
    bool free(uint64_t address);
    bool copyIn(uint64_t to, const void *from, uint64_t bytes);
    bool copyOut(void *to, uint64_t from, uint64_t bytes);
    bool fill(uint64_t to, uint8_t value, uint64_t bytes);

  private:
    TestGpu &gpu_;
  };
  Memory &memory() { return memory_; }

private:
  SoftGpu soft_;
  DriverGpu *driver_;
  Memory memory_;
  std::vector<std::unique_ptr<Program>> programs_;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_TESTGPU_H
