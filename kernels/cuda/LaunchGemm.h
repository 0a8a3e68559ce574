//===- LaunchGemm.h - Launches of matrix products ---------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHGEMM_H
#define MOE_KERNELS_CUDA_LAUNCHGEMM_H

#include "kernels/cuda/MakeLaunch.h"

namespace moek::cuda {

/// The suffix of a kernel's name for an activation; "" for SiLU.
const char *activationSuffix(Activation activation);

/// Specialises `spec` for a weight format; false if that has no kernels.
bool addFormat(KernelSpec &spec, Format format);

constexpr bool isProduct(OpCode op) {
  return op == OpCode::Linear || op == OpCode::GateUp ||
         op == OpCode::HeadLinear || op == OpCode::ExpertsLinear ||
         op == OpCode::ExpertsGateUp;
}
/// Returns the launches of an op that isProduct(). With context.parts, those of
/// the latter two stream their experts.
std::vector<Launch> gemmLaunches(OpCode op, const void *args,
                                 const LaunchContext &context);

/// Returns the bytes of the slots of an instruction that streams.
int64_t slotBytes(OpCode op, const void *args, const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHGEMM_H
