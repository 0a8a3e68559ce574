//===- ProvenOp.h - An instruction that is known to be sound ----*- C++ -*-===//
//
// The result of a proof (runtime/prove/Prove.h) for the device that runs the
// instruction: it has no pointers, and nothing is left to check. Operands and
// parameters are named as in runtime/schema/OpTable.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PROVE_PROVENOP_H
#define MOE_RUNTIME_PROVE_PROVENOP_H

#include "kernels/Registry.h"
#include "runtime/schema/OpTable.h"
#include "runtime/schema/plan_generated.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

/// One instruction of a plan that passed all checks. The plan must outlive this
/// object.
class ProvenOp {
public:
  ProvenOp(const fb::Plan &plan, const fb::Phase &phase, uint32_t index);

  const OpSpec &spec() const { return *spec_; }
  const fb::Instruction &instruction() const { return *instruction_; }
  /// Returns the instruction's position in the phase's list, which contains the
  /// instructions of all queues.
  uint32_t index() const { return index_; }
  /// Returns the number of the device that runs the instruction.
  uint32_t device() const;
  /// Returns the kernel that executes the instruction.
  const moek::KernelInfo &opKernel() const { return *opKernel_; }

  /// Returns an operand. Its index points into the plan's table of buffers,
  /// weights, caches or constants, depending on its kind.
  const fb::Operand &operand(std::string_view name) const;
  /// Returns whether an optional operand is present.
  bool has(std::string_view operand) const;
  const fb::Buffer &buffer(std::string_view operand) const;
  const fb::Weight &weight(std::string_view operand) const;
  const fb::Kv &cache(std::string_view operand) const;
  std::span<const float> constant(std::string_view operand) const;
  /// Returns the gemm of a weight operand that has one of its own.
  const moek::GemmInfo &gemm(std::string_view operand) const {
    return *gemms_[position(operand)];
  }

  int32_t integer(std::string_view name) const;
  float real(std::string_view name) const;

private:
  friend class OpProof;
  static constexpr size_t kMaxOperands = 9;

  size_t position(std::string_view operand) const;
  uint32_t intPosition(std::string_view name) const;

  const fb::Plan *plan_;
  const fb::Phase *phase_;
  const fb::Instruction *instruction_;
  const OpSpec *spec_;
  uint32_t index_;
  const moek::KernelInfo *opKernel_ = nullptr;
  /// Gemms by operand position; null for operands without a gemm.
  std::array<const moek::GemmInfo *, kMaxOperands> gemms_{};
};

/// The proven instructions of a phase, in the phase's order.
struct ProvenPhase {
  const fb::Phase *phase;
  std::vector<ProvenOp> ops;
};

} // namespace moert

#endif // MOE_RUNTIME_PROVE_PROVENOP_H
