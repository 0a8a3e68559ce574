//===- CpuOperands.h - Addresses of an instruction's operands ---*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H
#define MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H

#include "runtime/device/DeviceOperands.h"
#include "runtime/device/cpu/Bind.h"
#include "runtime/plan/WeightFiles.h"

#include <span>
#include <string_view>

namespace moert {

/// Answers the queries of kernels/Arguments.h about an instruction with
/// addresses and functions of this machine's CPU.
class CpuOperands : public DeviceOperands {
public:
  /// `own` is the worker's memory for buffers of which each worker has a copy.
  CpuOperands(const fb::Plan &plan, const ProvenOp &op, const CpuMemory &memory,
              std::byte *own, const WeightFiles &files)
      : DeviceOperands(plan, op), memory_(memory), own_(own), files_(files) {}

  uint8_t *bytes(std::string_view name);
  std::span<const float> constant(std::string_view name) const {
    return op_.constant(name);
  }
  moek::WeightView weight(std::string_view name) const;
  moek::KvView cache(std::string_view name) const;
  /// Returns null if this CPU or build lacks the kernel.
  moek::GemmFn gemm(std::string_view name);

  /// Returns the function that runs the instruction, or null like gemm().
  moek::KernelFn opKernel();
  /// Checks that the plan provides the memory per worker that the kernel uses;
  /// if not, finish() returns InvalidFile.
  void checkScratch();

private:
  bool usable(std::string_view kernel, moek::Isa isa);
  template <class Function>
  Function present(std::string_view kernel, Function function);

  const CpuMemory &memory_;
  std::byte *own_;
  const WeightFiles &files_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H
