//===- OpTable.h - Operands and parameters of every instruction -*- C++ -*-===//
//
// kernels/Ops.def as data: the order, roles and types of each op's operands,
// and the names and ranges of its integer and float parameters. The compiler
// builds instructions from it, the plan dialect prints with it, the scheduler
// reads hazards from it, and the semantic verifier checks against it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SCHEMA_OPTABLE_H
#define MOE_RUNTIME_SCHEMA_OPTABLE_H

#include "kernels/OpCode.h"

#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace moert {

/// Version of plan.fbs, and of the parameters of the kernels that plans contain
/// (kernels/cuda/Abi.h), that this build writes and reads.
inline constexpr unsigned kSchemaVersion = 15;
/// Sequences that a plan decodes together at most.
inline constexpr int kMaxSequences = 64;
/// Buffers and caches begin at multiples of a cache line.
inline constexpr uint64_t kRegionAlignment = 64;
/// Upper bound on an op's integers. It is far above any real model, and low
/// enough that products of two of them cannot overflow int64_t.
inline constexpr int64_t kMaxParameter = int64_t(1) << 24;

enum class OperandRole {
  Read,      ///< A buffer.
  Write,     ///< A buffer that is overwritten.
  ReadWrite, ///< A buffer that is updated in place.
  Weight,    ///< A weight that an op kernel or a gemm reads.
  KvRead,    ///< Rows of a cache.
  KvWrite,   ///< Rows that are appended to a cache.
  Constant,
};

/// The type that kernels/OperandTypes.def gives an operand. None: only the op's
/// prover restricts it.
enum class OperandType : uint8_t {
  None,
  F32,
  I32,
  Activations, ///< A buffer of F32, A8 or A8K.
  A8,          ///< A buffer of A8 or A8K.
  Bytes,       ///< A buffer with rows of any encoding.
  Vector,      ///< An F32 matrix of one row, or of packed rows.
  Table,       ///< An I32 matrix of one row, or of packed rows.
  Matrix,
  Cache,
  Values,
};

/// The array that integers in a buffer are indices into. They must be proven to
/// be in its range.
enum class Indices : uint8_t {
  None,
  Tokens,       ///< Token ids: the phase's input.
  Experts,      ///< Experts that a router has chosen.
  GroupOffsets, ///< Slots that expert_group lists, by expert.
  GroupSlots,   ///< (token, choice) pairs of the same expert_group.
  Entries,      ///< Entries of a cache that a token sees (kernels/Entries.h).
};

struct OperandSpec {
  std::string_view name;
  OperandRole role;
  OperandType type = OperandType::None;
  bool optional = false; ///< Whether it may be OperandKind::None.
  /// The weight is read by a gemm of its own (Instruction.kernels[1...]).
  bool gemm = false;
  /// The weight stays in the model file, of which rows are read when tokens
  /// need them (ResidencyMode::File).
  bool byRows = false;
  Indices indices = Indices::None; ///< What the buffer contains.
};

/// The range of a parameter regardless of the other parameters; both ends are
/// included.
struct IntRange {
  int64_t low, high;
};
/// Every float is finite.
enum class FloatRange : uint8_t { Finite, AtLeastZero, AboveZero };

enum class OpKind : uint8_t {
  Plain,
  /// Works element by element or row by row: an input may be the output.
  InPlace,
  /// Copies bytes of any type, also to and from another device.
  Copies,
  /// Makes 8-bit activations of floats.
  Encodes,
  /// Compares a few numbers of a token: long vectors have nothing to do.
  Narrow,
  /// Reads what only the host's memory has: GPUs have no kernel.
  OnHost,
};

/// An instruction's integer parameter by its name.
using IntReader = std::function<int64_t(std::string_view)>;

struct OpSpec {
  moek::OpCode op;
  OpKind kind;
  std::string_view name; ///< Name as in the text of plans: "rms_norm".
  std::span<const OperandSpec> operands;
  std::span<const std::string_view> ints;
  std::span<const std::string_view> floats;
  std::span<const IntRange> intRanges;     ///< One for each of `ints`.
  std::span<const FloatRange> floatRanges; ///< One for each of `floats`.
  /// Bytes of private memory that each worker needs.
  int64_t (*scratchBytes)(const IntReader &of);
};

/// Indexed by OpCode.
std::span<const OpSpec> opTable();
/// Null for a number beyond the table.
const OpSpec *findOp(unsigned number);
const OpSpec *findOp(std::string_view name);

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_OPTABLE_H
