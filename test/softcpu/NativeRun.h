//===- NativeRun.h - Runs instructions natively -----------------*- C++ -*-===//
//
// A sequence of instructions of a program, copied into a function that loads
// the registers they name, executes them and saves the registers again.
// Branches, and instructions that add() refuses, are handled elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_NATIVERUN_H
#define MOE_TEST_SOFTCPU_NATIVERUN_H

#include "test/softcpu/CodeArena.h"
#include "test/softcpu/Registers.h"

#include <Zydis/Zydis.h>
#include <vector>

namespace moek::test {

/// Data at the start of an arena: the registers that its code loads and saves.
struct ArenaData {
  Registers registers;
  uint64_t hostStack; ///< Host stack pointer while the program's is in use.
  uint64_t target;    ///< The function that writeCall()'s code calls.
};

class NativeRun {
public:
  using Code = void (*)();
  /// Returns the most bytes of code that a run of `instructions` may take.
  static constexpr size_t codeBytes(size_t instructions) {
    return 1024 + 16 * instructions;
  }

  /// Appends the instruction at `address`; returns false if it cannot be part
  /// of a run.
  bool add(const ZydisDecodedInstruction &instruction,
           const ZydisDecodedOperand *operands, const uint8_t *address);
  bool empty() const { return instructions_.empty(); }
  size_t size() const { return instructions_.size(); }

  /// Writes the function and returns its address.
  Code write(CodeArena &arena) const;

  /// Writes a function that calls ArenaData::target with all registers loaded.
  static Code writeCall(CodeArena &arena);

private:
  struct Copied {
    const uint8_t *address;
    uint8_t length;
    /// Place of a RIP-relative operand's displacement; else 0.
    uint8_t displacementAt;
  };

  void useFlags(const ZydisDecodedInstruction &instruction,
                const ZydisDecodedOperand *operands);
  void writeEntry(CodeArena &arena) const;
  void writeExit(CodeArena &arena) const;

  std::vector<Copied> instructions_;
  uint32_t general_ = 0; ///< Bit r: register r is read or written.
  uint32_t vectors_ = 0; ///< Bit r: XMM and YMM register r is read or written.
  uint32_t zeroAbove_ = 0; ///< Bit r: bytes from 32 on of vector r become zero.
  bool wide_ = false;      ///< Whether more than the XMM parts are used.
  /// Whether flags are read that no instruction of the run wrote.
  bool needsFlags_ = false;
  bool setsFlags_ = false;
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_NATIVERUN_H
