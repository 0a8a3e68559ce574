//===- VectorInstruction.h - AVX-512 executed in software -------*- C++ -*-===//
//
// The instructions with an EVEX prefix, those on mask registers and those of
// AVX-VNNI, as the Software Developer's Manual specifies them for AVX-512 F,
// BW, DQ, VL, VNNI and BF16: those that compilers emit for the kernels. They
// run on a CPU with AVX2, FMA and F16C.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H
#define MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H

#include "test/softcpu/Registers.h"

#include <Zydis/Zydis.h>
#include <optional>

namespace moek::test {

/// Decodes a memory operand of an instruction that ends at the address `next`.
/// If the indices are a vector, `index` is that vector's number.
Address addressOf(const ZydisDecodedOperand &operand, uint64_t next);

/// An instruction that is decoded once and executed often.
struct VectorInstruction {
  using Execute = void (*)(const VectorInstruction &, Registers &);

  /// Place of the last source.
  enum class Source : uint8_t {
    Register,
    Memory,       ///< All of the operand in memory is read.
    ActiveMemory, ///< Elements whose mask bit is zero are not accessed.
    Broadcast,    ///< A single element in memory.
  };

  Execute execute;
  /// Executes it under the instruction's own rounding, if it has one.
  Execute rounded = nullptr;
  /// Address of the memory operand, which may be the destination. A gather's
  /// indices are in the vector `left`.
  Address address;
  /// Numbers of vectors, mask registers or general registers, depending on the
  /// instruction: the destination, the sources before the last, the last
  /// source.
  uint8_t to = 0, left = 0, right = 0;
  Source source = Source::Register;
  uint8_t immediate = 0;
  uint8_t bytes = 0;        ///< The vector length.
  uint8_t memoryBytes = 0;  ///< Size of the memory operand.
  uint8_t generalBytes = 0; ///< Size of the general register operand.
  uint8_t mask = 0; ///< Whether there is no mask, and the vector length is 64.
  bool zeroing = false;
  bool full = false;    ///< Number of the mask register; 0: no mask.
  uint8_t rounding = 0; ///< Rounding mode as in MXCSR, if `rounded` is set.
};

/// Whether decodeVectorInstruction handles it: it is EVEX-encoded, has a mask
/// register as an operand, or belongs to AVX-VNNI.
bool isVectorInstruction(const ZydisDecodedInstruction &instruction,
                         const ZydisDecodedOperand *operands);

/// Returns nothing if the instruction is not supported. `address` is its
/// address.
std::optional<VectorInstruction>
decodeVectorInstruction(const ZydisDecodedInstruction &instruction,
                        const ZydisDecodedOperand *operands, uint64_t address);

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTORINSTRUCTION_H
