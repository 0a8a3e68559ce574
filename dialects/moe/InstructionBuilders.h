//===- InstructionBuilders.h - Named builders, from Ops.def -----*- C++ -*-===//
//
// For each instruction of kernels/Ops.def a struct with a member for every
// operand and parameter, in the same order:
//
//   inst::RmsNorm{.x = getX(), .weight = getWeight(), .out = getResult(),
//                 .groups = getGroups(), .eps = getEps()}
//
// It converts to an Instruction. None of the members has a default, so that a
// forgotten one is a compile error; an absent operand is std::nullopt or a null
// value.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_INSTRUCTIONBUILDERS_H
#define MOE_DIALECTS_MOE_INSTRUCTIONBUILDERS_H

#include "dialects/moe/Instruction.h"
#include "llvm/ADT/APFloat.h"

#include <type_traits>

namespace mlir::moe::inst {

/// An integer parameter: a number, a flag or an enumerator.
struct IntParameter {
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) IntParameter(T value)
      : value(int64_t(value)) {}
  int64_t value;
};

struct FloatParameter {
  FloatParameter(double value) : value(value) {}
  FloatParameter(const APFloat &value) : value(value.convertToDouble()) {}
  double value;
};

#define MOE_OP(op, name, number, kind) struct op {
#define MOE_OPERAND(name, role, ...) Operand name;
#define MOE_INT(name, ...) IntParameter name;
#define MOE_FLOAT(name, ...) FloatParameter name;
#define MOE_OP_END                                                             \
  operator Instruction() const;                                                \
  }                                                                            \
  ;
#include "kernels/Ops.def"

} // namespace mlir::moe::inst

#endif // MOE_DIALECTS_MOE_INSTRUCTIONBUILDERS_H
