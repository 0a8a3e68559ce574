//===- CostModel.h - Seconds of an instruction ------------------*- C++ -*-===//
//
// The one place that turns work into seconds. What an instruction does is the
// op's CostOpInterface; what its kernels do per second at that size is in the
// target, measured (kernels/KernelRate.h). Where a target has no
// rates of a kernel, the kernel takes the longer of its arithmetic and its
// traffic at the stated share of the device's peaks (the roofline of Williams
// et al., CACM 2009).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H
#define MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"

namespace moec {

/// Of a step, what seconds depend on besides the work.
struct Situation {
  int64_t tokens = 1;
  int64_t cached = 0; ///< Positions before the step, of each sequence.
  /// What the step reads of its device's weights is still in the cache from
  /// the step before.
  bool weightsInCache = false;
  int64_t sequences = 1; ///< That as many of the tokens each belong to.
};

/// The kernels of an instruction. Null where there is none: then the device's
/// peaks tell.
struct KernelChoice {
  const moek::KernelInfo *driver = nullptr;
  /// Parallel to the work's products; fewer where the driver multiplies some
  /// itself.
  llvm::ArrayRef<const moek::GemmInfo *> gemms = {};
};

/// Tokens of a sequence that have too few heads to keep all cores busy: latent
/// attention cuts the cache into spans for them, which are measured apart.
inline constexpr int64_t kFewTokens = 8;

/// Seconds of one instruction on all cores of `device`.
double instructionSeconds(moek::OpCode op, const mlir::moe::StepWork &work,
                          const KernelChoice &kernels,
                          const Situation &situation, const DeviceDesc &device);

/// Seconds in which `gemm` reads a byte of weights and multiplies it with
/// `rows` rows of activations; not `cached`, no faster than the device reads
/// memory. None where that was not measured.
std::optional<double> measuredSecondsPerByte(const moek::GemmInfo &gemm,
                                             double rows, bool cached,
                                             const DeviceDesc &device);

/// Seconds in which `gemm` does a product of an instruction on `device`.
double gemmSeconds(const mlir::moe::Product &product,
                   const moek::GemmInfo &gemm, const Situation &situation,
                   const DeviceDesc &device);

/// Seconds to move `bytes` over the device's link to the host.
double transferSeconds(double bytes, const DeviceDesc &device);

/// Whether `bytes` of weights that every step reads stay in the cache that the
/// cores share.
bool stayInCache(double bytes, const DeviceDesc &device);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H
