//===- LaunchGemm.h - Launches of matrix products ---------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHGEMM_H
#define MOE_KERNELS_CUDA_LAUNCHGEMM_H

#include "kernels/cuda/MakeLaunch.h"

namespace moek::cuda {

/// What a kernel's name has for one that is not SiLU.
const char *activationSuffix(Activation activation);

/// Compiles `spec` for a weight format; false if that has no kernels.
bool addFormat(KernelSpec &spec, Format format);

constexpr bool isProduct(OpCode op) {
  return op == OpCode::Linear || op == OpCode::GateUp ||
         op == OpCode::HeadLinear || op == OpCode::ExpertsLinear ||
         op == OpCode::ExpertsGateUp;
}
/// Of an op that isProduct().
/// With context.parts what is streamed of the latter two.
std::vector<Launch> gemmLaunches(OpCode op, const void *args,
                                 const LaunchContext &context);

/// Of the slots of such an instruction.
int64_t slotBytes(OpCode op, const void *args, const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHGEMM_H
