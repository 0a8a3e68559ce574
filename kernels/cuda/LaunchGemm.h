//===- LaunchGemm.h - Launches of matrix products ---------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHGEMM_H
#define MOE_KERNELS_CUDA_LAUNCHGEMM_H

#include "kernels/cuda/Limits.h"
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

/// Returns the bytes of workspace of a product: the slots of one that streams,
/// activations as 16-bit numbers, and the sums of divided tiles.
int64_t gemmBytes(OpCode op, const void *args, const LaunchContext &context);
/// Whether panels are unpacked to F16 in prefill (HalfPanels.cuh): where F16
/// has half of the int8 rate. On GeForce GPUs it has a quarter.
constexpr bool hasPanelProducts(int arch) {
  return arch >= 80 && multiprocessorOf(arch).sharedBytes >= 128 << 10;
}

/// Returns the most bytes that the sums of divided tiles (Tail.cuh) may take,
/// for a product over `cols` columns; 0 if such a product is not divided.
int64_t mostTailBytes(const LaunchContext &context, int64_t cols);
/// Whether that is done for products of `op`.
constexpr bool hasTail(OpCode op) {
  return op == OpCode::Linear || op == OpCode::GateUp;
}

/// Returns the most bytes that a product of weights of `format` by HalfGemm.cu
/// needs for `rows` rows of activations as 16-bit numbers: two for each
/// activation, or three where weights are F32, and a scale per row.
int64_t narrowBytes(Format format, int64_t rows, int64_t cols);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHGEMM_H
