//===- CpuOperands.h - Where an instruction's operands are ------*- C++ -*-===//
//
// What the binders of this folder build argument structs (kernels/Abi.h) from:
// addresses of operands, functions of kernels. Shapes are not looked at again.
// The first thing that this CPU lacks is kept and told by finish().
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H
#define MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H

#include "runtime/ProvenOp.h"
#include "runtime/WeightFiles.h"
#include "runtime/device/cpu/Bind.h"

#include <span>
#include <string_view>

namespace moert {

class CpuOperands {
public:
  /// `own` is the worker's memory for buffers of which each has a copy.
  CpuOperands(const fb::Plan &plan, const ProvenOp &op, const CpuMemory &memory,
              std::byte *own, const WeightFiles &files,
              ArgumentStore &arguments)
      : plan_(plan), op_(op), memory_(memory), own_(own), files_(files),
        arguments_(arguments) {}

  const ProvenOp &op() const { return op_; }

  uint8_t *bytes(std::string_view buffer);
  float *f32(std::string_view buffer) {
    return reinterpret_cast<float *>(bytes(buffer));
  }
  int32_t *i32(std::string_view buffer) {
    return reinterpret_cast<int32_t *>(bytes(buffer));
  }
  /// ProvenOp::stride() in bytes for every encoding.
  int64_t byteStride(std::string_view buffer) const;
  moek::WeightView weight(std::string_view operand) const;
  /// Of a weight that is one row of F32; null where it is absent.
  const float *vector(std::string_view operand) const;
  moek::KvView cache(std::string_view operand) const;

  /// Null where this CPU or build does not have it.
  moek::GemmFn gemm(std::string_view operand);
  moek::KernelFn driver();
  /// That there is the memory per worker which the kernel uses.
  void checkScratch();

  const void *keep(const auto &args) {
    return status_.isOk() ? arguments_.keep(args) : nullptr;
  }
  /// WrongMachine, or InvalidFile where the plan gives too little scratch.
  Status finish() { return std::move(status_); }

private:
  bool usable(std::string_view kernel, moek::Isa isa);
  template <class Function>
  Function present(std::string_view kernel, Function function);

  const fb::Plan &plan_;
  const ProvenOp &op_;
  const CpuMemory &memory_;
  std::byte *own_;
  const WeightFiles &files_;
  ArgumentStore &arguments_;
  Status status_;
};

/// Builds the arguments of one op; null after a failure. In a Bind*.cpp.
using Binder = const void *(*)(CpuOperands &);

#define MOE_OP(op, name, number, kind) const void *bind##op(CpuOperands &);
#include "kernels/Ops.def"

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CPUOPERANDS_H
