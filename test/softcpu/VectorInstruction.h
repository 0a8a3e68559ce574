//===- VectorInstruction.h - AVX-512 in software ----------------*- C++ -*-===//
//
// The instructions with an EVEX prefix, and those on mask registers, as the
// Software Developer's Manual specifies them for AVX-512 F, BW, DQ, VL, VNNI
// and BF16: those that compilers emit for the kernels. Runs on a CPU with AVX2,
// FMA and F16C.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H
#define MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H

#include "test/softcpu/Registers.h"

#include <Zydis/Zydis.h>
#include <optional>

namespace moek::test {

/// A memory operand of an instruction in front of the address `next`. Of one
/// whose indices are a vector, `index` is that vector.
Address addressOf(const ZydisDecodedOperand &operand, uint64_t next);

/// Decoded once, executed often.
struct VectorInstruction {
  using Execute = void (*)(const VectorInstruction &, Registers &);

  /// Where the last source is.
  enum class Source : uint8_t {
    Register,
    Memory,       ///< All of it is read.
    ActiveMemory, ///< Elements with a zero in the mask are left alone.
    Broadcast,    ///< One element in memory.
  };

  Execute execute;
  /// What `execute` runs under the instruction's own rounding, if it has that.
  Execute rounded = nullptr;
  /// Of the operand in memory, be it the destination. A gather's indices are in
  /// the vector `left`.
  Address address;
  /// Numbers of vectors, mask registers or general registers, as the
  /// instruction has it: the destination, the last source, and what is between.
  uint8_t to = 0, left = 0, right = 0;
  Source source = Source::Register;
  uint8_t immediate = 0;
  uint8_t bytes = 0;        ///< The vector length.
  uint8_t memoryBytes = 0;  ///< Of the operand in memory.
  uint8_t generalBytes = 0; ///< Of the operand in a general register.
  uint8_t mask = 0;         ///< The mask register's number; 0: no mask.
  bool zeroing = false;
  bool full = false;    ///< No mask, and the vector length is 64.
  uint8_t rounding = 0; ///< As in MXCSR, where `rounded` is set.
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
