//===- CudaModules.h - A plan's kernels on one GPU --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H

#include "runtime/device/cuda/CudaContext.h"
#include "runtime/plan/Plan.h"
#include "runtime/schema/plan_generated.h"

#include <string>
#include <vector>

namespace moert {

/// What a driver is given of a module.
struct CudaImage {
  /// A cubin, or PTX, which the driver compiles. Empty: there is none.
  std::string bytes;
  bool isPtx = false;
};

/// A GPU runs cubins of its generation (arch / 10) up to its own arch, of which
/// the newest is best, and PTX of any arch up to its own.
CudaImage imageFor(const fb::Module &module, int arch);

/// Those that instructions of a device launch, loaded, so that nothing has to
/// be while a step runs or is captured.
class CudaModules {
public:
  /// In the context that is current, in which the result ends too. WrongMachine
  /// where an image for `gpu` is missing or its driver is too old, with the
  /// command that fixes it.
  static StatusOr<CudaModules> load(const CudaDriver &driver,
                                    const CudaGpu &gpu, const Plan &plan,
                                    uint32_t device);

  /// Of a module of the plan's that the device launches.
  cu::Function function(uint32_t module) const { return functions_[module]; }

private:
  std::vector<CudaOwned<cu::Module>> modules_;
  std::vector<cu::Function> functions_; ///< By module of the plan; may be null.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H
