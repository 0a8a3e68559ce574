//===- CostModel.h - Predicts the seconds of an instruction -----*- C++ -*-===//
//
// The only place that turns work into seconds. LowerableOpInterface
// describes the work of an instruction. The target has the measured rates of
// kernels by size (kernels/KernelRate.h). A kernel without measured rates takes
// the longer of its arithmetic and its traffic, at an assumed efficiency times
// the device's peaks (the roofline of Williams et al., CACM 2009).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H
#define MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/Moe.h"

namespace moec {

/// Properties of a step on which seconds depend besides the work.
struct Situation {
  int64_t tokens = 1;
  int64_t cached = 0; ///< Cached positions of each sequence before the step.
  /// Whether the weights that the step reads are still in the cache from the
  /// previous step.
  bool weightsInCache = false;
  /// Sequences among which the tokens are divided equally.
  int64_t sequences = 1;
};

/// The kernels of an instruction. Without a kernel (null), the device's peaks
/// are used.
struct KernelChoice {
  const moek::KernelInfo *driver = nullptr;
  /// Parallel to the work's products; shorter if the op's kernel multiplies
  /// some of them itself.
  llvm::ArrayRef<const moek::GemmInfo *> gemms = {};
};

/// Returns the seconds of one instruction on all cores of `device`.
double instructionSeconds(moek::OpCode op,
                          const mlir::moe::InstructionWork &work,
                          const KernelChoice &kernels,
                          const Situation &situation, const DeviceDesc &device);

/// Returns the seconds in which `gemm` reads a byte of weights and multiplies
/// it with `rows` rows of activations. Unless `cached`, that is no faster than
/// the device reads memory. Returns none if the gemm was not calibrated.
std::optional<double> measuredSecondsPerByte(const moek::GemmInfo &gemm,
                                             double rows, bool cached,
                                             const DeviceDesc &device);

/// Returns the seconds of one product of an instruction with `gemm` on
/// `device`.
double gemmSeconds(const mlir::moe::Product &product,
                   const moek::GemmInfo &gemm, const Situation &situation,
                   const DeviceDesc &device);

/// Returns the seconds to move `bytes` over the device's link to the host, or
/// to hand them over in the memory that it shares with the host.
double transferSeconds(double bytes, const DeviceDesc &device);

/// Returns the seconds to copy `bytes` of the host's memory to a GPU through a
/// ring of pinned memory: those of the link, or those of the host's memory if
/// they are more. It reads the bytes, writes them to the ring and reads them
/// there.
double ringSeconds(double bytes, const DeviceDesc &host, const DeviceDesc &gpu);

/// Returns the seconds to copy `bytes` from one device to another. Between two
/// GPUs they go through the host's memory and over both links.
double copySeconds(double bytes, const DeviceDesc &from, const DeviceDesc &to);

/// Returns whether `bytes` of weights that every step reads stay in the
/// last-level cache.
bool stayInCache(double bytes, const DeviceDesc &device);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_COSTMODEL_H
