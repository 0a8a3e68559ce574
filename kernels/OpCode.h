//===- OpCode.h - The instruction set of a plan -----------------*- C++ -*-===//
//
// Shared by compiler, plan format and runtime. kernels/Ops.def describes each
// instruction, its operands and its parameters.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_OPCODE_H
#define MOE_KERNELS_OPCODE_H

#include <cstdint>

namespace moek {

enum class OpCode : uint8_t {
#define MOE_OP(op, name, number, kind) op = number,
#include "kernels/Ops.def"
};

/// Number of instructions. Their opcodes are 0 to kOpCodeCount - 1.
inline constexpr unsigned kOpCodeCount = 0
#define MOE_OP(op, name, number, kind) +1
#include "kernels/Ops.def"
    ;

} // namespace moek

#endif // MOE_KERNELS_OPCODE_H
