//===- NativeRun.h - Instructions that this CPU executes itself -*- C++ -*-===//
//
// A run of instructions of a program, copied into a function of its own that
// puts the registers they name in place, executes them and saves the registers
// again. Branches and what a NativeRun refuses is not for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_NATIVERUN_H
#define MOE_TEST_SOFTCPU_NATIVERUN_H

#include "test/softcpu/CodeArena.h"
#include "test/softcpu/Registers.h"

#include <Zydis/Zydis.h>
#include <vector>

namespace moek::test {

/// What an arena begins with: the registers that its code loads and saves.
struct ArenaData {
  Registers registers;
  uint64_t hostStack; ///< Our stack pointer while the program's is in use.
  uint64_t target;    ///< What callOutside's code calls.
};

class NativeRun {
public:
  using Code = void (*)();
  /// The most bytes of code that a run of `instructions` takes.
  static constexpr size_t codeBytes(size_t instructions) {
    return 1024 + 16 * instructions;
  }

  /// Appends the instruction at `address`; false if it cannot be one of a run.
  bool add(const ZydisDecodedInstruction &instruction,
           const ZydisDecodedOperand *operands, const uint8_t *address);
  bool empty() const { return instructions_.empty(); }
  size_t size() const { return instructions_.size(); }

  /// Writes the function.
  Code write(CodeArena &arena) const;

  /// A function that calls ArenaData::target with all registers in place.
  static Code writeCall(CodeArena &arena);

private:
  struct Copied {
    const uint8_t *address;
    uint8_t length;
    uint8_t displacementAt; ///< Of a RIP-relative operand; else 0.
  };

  void useFlags(const ZydisDecodedInstruction &instruction,
                const ZydisDecodedOperand *operands);
  void writeEntry(CodeArena &arena) const;
  void writeExit(CodeArena &arena) const;

  std::vector<Copied> instructions_;
  uint32_t general_ = 0;    ///< Bit r: register r is read or written.
  uint32_t vectors_ = 0;    ///< The same of XMM and YMM registers.
  uint32_t zeroAbove_ = 0;  ///< Vectors whose bytes from 32 on become zero.
  bool wide_ = false;       ///< More of them than the XMM part is.
  bool needsFlags_ = false; ///< Something reads flags that none here wrote.
  bool setsFlags_ = false;
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_NATIVERUN_H
