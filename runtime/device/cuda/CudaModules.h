//===- CudaModules.h - A plan's kernels on one GPU --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H

#include "runtime/device/cuda/CudaContext.h"
#include "runtime/plan/Plan.h"
#include "runtime/schema/plan_generated.h"

#include <string>
#include <vector>

namespace moert {

/// A module's code in the form that the driver receives.
struct CudaImage {
  /// A cubin, or PTX, which the driver compiles. Empty: no code for this GPU.
  std::string bytes;
  bool isPtx = false;
  int arch = 0; ///< The architecture for which it was compiled.
};

/// Returns the best image for a GPU. A GPU runs cubins of its generation (arch
/// / 10) up to its own arch, of which the newest is best, and PTX for any arch
/// up to its own.
CudaImage imageFor(const fb::Module &module, int arch);

/// The modules that instructions of a device launch. All are loaded in advance,
/// because nothing can be loaded while a step runs or is captured.
class CudaModules {
public:
  /// Loads the modules in `context`, which must outlive the result, on several
  /// threads. Fails with WrongMachine, naming the command that helps, if there
  /// is no image for `gpu` or its driver is too old.
  static StatusOr<CudaModules> load(const CudaDriver &driver,
                                    const CudaContext &context,
                                    const CudaGpu &gpu, const Plan &plan,
                                    uint32_t device);

  /// Returns the function of a module that the device launches.
  cu::Function function(uint32_t module) const { return functions_[module]; }
  /// Returns the architecture for which the loaded code was compiled.
  int arch(uint32_t module) const { return archs_[module]; }

private:
  std::vector<CudaOwned<cu::Module>> modules_;
  std::vector<cu::Function> functions_; ///< By module of the plan; may be null.
  std::vector<int> archs_;              ///< By module of the plan.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAMODULES_H
