//===- DriverGpu.h - A GPU used through a CUDA driver -----------*- C++ -*-===//
//
// Runs the same tests on silicon: opens a libcuda by path and executes PTX
// through it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_DRIVERGPU_H
#define MOE_TEST_SOFTGPU_DRIVERGPU_H

#include "test/softgpu/SoftGpu.h"

#include <map>
#include <memory>
#include <string>

namespace softgpu {

class DriverGpu {
public:
  /// Opens the first GPU of `library`, or returns why there is none.
  static moert::StatusOr<std::unique_ptr<DriverGpu>>
  open(const std::string &library);
  ~DriverGpu();

  const std::string &name() const { return name_; }
  int arch() const { return arch_; } ///< 89 for compute capability 8.9.

  /// Loads the PTX from which `program` was decoded; its kernels can then be
  /// launched until it is unloaded.
  moert::Status load(const Program &program, const std::string &ptx);
  void unload(const Program &program);

  /// Runs the grid to its end. An error becomes a finding with the driver's
  /// name of the error; the context cannot be used after it.
  LaunchResult launch(const Kernel &kernel, const LaunchShape &shape,
                      std::span<const void *const> arguments);

  uint64_t allocate(uint64_t bytes);
  bool free(uint64_t address);
  bool copyIn(uint64_t to, const void *from, uint64_t bytes);
  bool copyOut(void *to, uint64_t from, uint64_t bytes);
  bool fill(uint64_t to, uint8_t value, uint64_t bytes);

private:
  struct Calls;
  DriverGpu();
  std::string errorName(int result) const;

  std::unique_ptr<Calls> calls_;
  std::string name_;
  int arch_ = 0;
  std::map<const Program *, void *> modules_;
  std::map<const Kernel *, void *> functions_;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_DRIVERGPU_H
