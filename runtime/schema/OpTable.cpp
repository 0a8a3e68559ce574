#include "runtime/schema/OpTable.h"

#include "kernels/Abi.h"
#include "kernels/Entries.h"
#include "kernels/Scratch.h"

#include <array>

namespace moert {

namespace {
using moek::OpCode;
using namespace moek; // For formulas of Scratch.h and Entries.h, and limits.
using Name = std::string_view;

// Ranges that Ops.def names.
constexpr IntRange kPositive{1, kMaxParameter}, kNatural{0, INT32_MAX};
constexpr FloatRange AtLeastZero = FloatRange::AtLeastZero,
                     AboveZero = FloatRange::AboveZero;

/// None stands for an integer that is no member of the arguments.
enum class IntType { Int, None, Bool, Activation, Gate, Scoring };
constexpr IntRange rangeOf(IntType type) {
  switch (type) {
  case IntType::Bool:
    return {0, 1};
  case IntType::Activation:
    return {0, kActivationCount - 1};
  case IntType::Gate:
    return {0, kGateCount - 1};
  case IntType::Scoring:
    return {1, kScoringCount};
  case IntType::Int:
  case IntType::None:
    break;
  }
  return {INT32_MIN, INT32_MAX};
}

/// Storage behind the spans of one OpSpec.
struct Signature {
  OpCode op;
  OpKind kind;
  Name name;
  std::array<OperandSpec, 9> operands{};
  std::array<Name, 8> ints{}, floats{};
  std::array<IntRange, 8> intRanges{};
  std::array<FloatRange, 8> floatRanges{};
  size_t operandCount = 0, intCount = 0, floatCount = 0;
  int64_t (*scratchBytes)(const IntReader &) = [](const IntReader &) {
    return int64_t(0);
  };

  // Too many operands or parameters are a compile-time error, because the
  // arrays are indexed in a constant expression.
  constexpr Signature add(OperandSpec spec) const {
    Signature more = *this;
    more.operands[more.operandCount++] = spec;
    return more;
  }
  constexpr Signature addInt(Name parameter, IntType, IntRange range) const {
    Signature more = *this;
    more.intRanges[more.intCount] = range;
    more.ints[more.intCount++] = parameter;
    return more;
  }
  constexpr Signature addInt(Name parameter, IntType type) const {
    return addInt(parameter, type, rangeOf(type));
  }
  constexpr Signature addFloat(Name parameter,
                               FloatRange range = FloatRange::Finite) const {
    Signature more = *this;
    more.floatRanges[more.floatCount] = range;
    more.floats[more.floatCount++] = parameter;
    return more;
  }
  constexpr Signature needing(int64_t (*bytes)(const IntReader &)) const {
    Signature more = *this;
    more.scratchBytes = bytes;
    return more;
  }
};

#define MOE_MEMBER(type, cpu, gpu, member) type
#define MOE_CPU_MEMBER(type, cpu, member) type
#define MOE_NO_MEMBER None
#define MOE_IN(scope, type) MOE_IN_EXPANDED(scope, type)
#define MOE_IN_EXPANDED(scope, type) scope::type

constexpr std::array<Signature, kOpCodeCount> signatures{
#define MOE_OP(op, name, number, kind)                                         \
  Signature { OpCode::op, OpKind::kind, #name }
#define MOE_OPERAND(operand, operandRole, operandType, ...)                    \
  .add({.name = #operand,                                                      \
        .role = OperandRole::operandRole,                                      \
        .type = MOE_IN(OperandType, MOE_TYPE_##operandType) __VA_OPT__(, )     \
            __VA_ARGS__})
#define MOE_INT(parameter, type, ...)                                          \
  .addInt(#parameter,                                                          \
          MOE_IN(IntType, MOE_TYPE_##type) __VA_OPT__(, ) __VA_ARGS__)
#define MOE_FLOAT(parameter, type, ...)                                        \
  .addFloat(#parameter __VA_OPT__(, ) __VA_ARGS__)
#define MOE_SCRATCH(...)                                                       \
  .needing([]([[maybe_unused]] const IntReader &of) -> int64_t {               \
    return __VA_ARGS__;                                                        \
  })
#define MOE_OP_END ,
#include "kernels/Ops.def"
};
#undef MOE_MEMBER
#undef MOE_CPU_MEMBER
#undef MOE_NO_MEMBER
#undef MOE_IN
#undef MOE_IN_EXPANDED

constexpr std::array<OpSpec, kOpCodeCount> table = [] {
  std::array<OpSpec, kOpCodeCount> specs{};
  for (unsigned i = 0; i < kOpCodeCount; ++i) {
    const Signature &s = signatures[i];
    specs[i] = {s.op,
                s.kind,
                s.name,
                {s.operands.data(), s.operandCount},
                {s.ints.data(), s.intCount},
                {s.floats.data(), s.floatCount},
                {s.intRanges.data(), s.intCount},
                {s.floatRanges.data(), s.floatCount},
                s.scratchBytes};
  }
  return specs;
}();

constexpr bool inOpCodeOrder() {
  for (unsigned i = 0; i < table.size(); ++i)
    if (static_cast<unsigned>(table[i].op) != i)
      return false;
  return true;
}
static_assert(inOpCodeOrder(), "Ops.def is indexed by OpCode");
} // namespace

std::span<const OpSpec> opTable() { return table; }

const OpSpec *findOp(unsigned number) {
  return number < table.size() ? &table[number] : nullptr;
}

const OpSpec *findOp(std::string_view name) {
  for (const OpSpec &spec : table)
    if (spec.name == name)
      return &spec;
  return nullptr;
}

} // namespace moert
