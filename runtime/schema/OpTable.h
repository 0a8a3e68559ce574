//===- OpTable.h - Operands and parameters of every instruction -*- C++ -*-===//
//
// The signature of each plan op: the order and roles of its operands and the
// names of its integer and float parameters. The compiler builds instructions
// from it, the plan dialect prints with it, the scheduler reads hazards from
// it, and the semantic verifier checks against it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_OPTABLE_H
#define MOE_RUNTIME_SCHEMA_OPTABLE_H

#include "kernels/OpCode.h"

#include <optional>
#include <span>
#include <string_view>

namespace moert {

/// Version of plan.fbs that this build writes and reads.
inline constexpr unsigned kSchemaVersion = 5;

enum class OperandRole {
  Read,      ///< A buffer.
  Write,     ///< A buffer, overwritten.
  ReadWrite, ///< A buffer, updated in place.
  Weight,    ///< A weight that a driver or gemm reads.
  KvRead,    ///< Rows of a cache.
  KvWrite,   ///< Appends rows to a cache.
  Constant,
};

struct OperandSpec {
  std::string_view name;
  OperandRole role;
  bool optional = false; ///< May be OperandKind::None.
  /// The weight is read by a gemm of its own (Instruction.kernels[1...]).
  bool gemm = false;
};

struct OpSpec {
  moek::OpCode op;
  std::string_view name; ///< As in plan text: "rms_norm".
  std::span<const OperandSpec> operands;
  std::span<const std::string_view> ints;
  std::span<const std::string_view> floats;
};

/// Indexed by OpCode.
std::span<const OpSpec> opTable();
/// Null for a number beyond the table.
const OpSpec *findOp(unsigned number);
const OpSpec *findOp(std::string_view name);

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_OPTABLE_H
