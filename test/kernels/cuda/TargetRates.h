//===- TargetRates.h - Simulated rates of kernels for targets ---*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_TARGETRATES_H
#define MOE_TEST_KERNELS_CUDA_TARGETRATES_H

#include "kernels/KernelRate.h"
#include "test/softgpu/GpuModel.h"

#include <string>
#include <vector>

namespace moek::test {

/// The rates that are simulated.
struct RatesChoice {
  std::string kernel; ///< Only kernels whose name contains this.
  /// Only products with at most so many rows (of each expert); 0: any.
  int32_t mostRows = 0;
};

/// The rates of products, attention and recurrent layers that the clock
/// predicts for a GPU, in the units of kernels/KernelRate.h.
std::vector<moert::KernelRate> simulatedRates(const softgpu::GpuModel &model,
                                              const RatesChoice &choice);

/// Writes them into the description of the GPU in `folder`, such as
/// compiler/Machine/Targets/4090.json, where other kernels keep theirs, and so
/// do products of more rows than were chosen. Returns "" or what is wrong.
std::string writeRates(const std::string &folder,
                       const softgpu::GpuModel &model,
                       const RatesChoice &choice,
                       std::vector<moert::KernelRate> rates);

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_TARGETRATES_H
