//===- VectorInstruction.h - AVX-512 in software ----------------*- C++ -*-===//
//
// The instructions with an EVEX prefix, and those on mask registers, as the
// Software Developer's Manual specifies them for AVX-512 F, BW, DQ, VL, VNNI and
// BF16: those that compilers emit for the kernels. Runs on a CPU with AVX2, FMA
// and F16C.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H
#define MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H

#include "test/softcpu/Registers.h"

#include <Zydis/Zydis.h>
#include <optional>

namespace moek::test {

/// Decoded once, executed often.
struct VectorInstruction {
  using Execute = void (*)(const VectorInstruction &, Registers &);

  Execute execute;
  // To be completed by what executes them: operands, mask, lengths.
};

/// Whether these are instructions for decodeVectorInstruction: EVEX-encoded, or
/// with a mask register as an operand.
bool isVectorInstruction(const ZydisDecodedInstruction &instruction,
                         const ZydisDecodedOperand *operands);

/// Nothing if this instruction is not known here. `address` is where it lies.
std::optional<VectorInstruction>
decodeVectorInstruction(const ZydisDecodedInstruction &instruction,
                        const ZydisDecodedOperand *operands, uint64_t address);

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H
