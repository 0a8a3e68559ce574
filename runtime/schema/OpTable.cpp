#include "runtime/schema/OpTable.h"

#include "kernels/Scratch.h"
#include "kernels/SparseArgs.h"

#include <array>

namespace moert {

namespace {
using moek::OpCode;
using namespace moek; // The formulas of Scratch.h and SparseArgs.h.
using Name = std::string_view;

/// Storage behind the spans of one OpSpec.
struct Signature {
  OpCode op;
  OpKind kind;
  Name name;
  std::array<OperandSpec, 8> operands{};
  std::array<Name, 8> ints{}, floats{};
  size_t operandCount = 0, intCount = 0, floatCount = 0;
  int64_t (*scratchBytes)(const IntReader &) = [](const IntReader &) {
    return int64_t(0);
  };

  // Beyond the arrays' ends is a compile-time error.
  constexpr Signature add(OperandSpec spec) const {
    Signature more = *this;
    more.operands[more.operandCount++] = spec;
    return more;
  }
  constexpr Signature addInt(Name parameter) const {
    Signature more = *this;
    more.ints[more.intCount++] = parameter;
    return more;
  }
  constexpr Signature addFloat(Name parameter) const {
    Signature more = *this;
    more.floats[more.floatCount++] = parameter;
    return more;
  }
  constexpr Signature needing(int64_t (*bytes)(const IntReader &)) const {
    Signature more = *this;
    more.scratchBytes = bytes;
    return more;
  }
};

constexpr std::array<Signature, kOpCodeCount> signatures{
#define MOE_OP(op, name, number, kind)                                         \
  Signature { OpCode::op, OpKind::kind, #name }
#define MOE_OPERAND(operand, operandRole, ...)                                 \
  .add({.name = #operand,                                                      \
        .role = OperandRole::operandRole __VA_OPT__(, ) __VA_ARGS__})
#define MOE_INT(parameter) .addInt(#parameter)
#define MOE_FLOAT(parameter) .addFloat(#parameter)
#define MOE_SCRATCH(...)                                                       \
  .needing([]([[maybe_unused]] const IntReader &of) -> int64_t {               \
    return __VA_ARGS__;                                                        \
  })
#define MOE_OP_END ,
#include "kernels/Ops.def"
};

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
