//===- Translation.h - Decodes machine code block by block ------*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_TRANSLATION_H
#define MOE_TEST_SOFTCPU_TRANSLATION_H

#include "test/amx/TileInstruction.h"
#include "test/softcpu/NativeRun.h"
#include "test/softcpu/VectorInstruction.h"

#include <memory>
#include <unordered_map>
#include <variant>

namespace moek::test {

/// The step of vzeroupper.
struct ZeroUpper {};
struct TileStep {
  TileInstruction instruction;
  uint64_t address;
};
using BlockStep =
    std::variant<NativeRun::Code, VectorInstruction, TileStep, ZeroUpper>;

/// The instruction that ends a block.
struct BlockEnd {
  enum class Kind : uint8_t {
    Goes, ///< Continues at `next`; a block may end at any instruction.
    Jumps,
    Branches, ///< Jumps if `condition` holds; otherwise continues at `next`.
    Calls,
    Returns,
  };

  Kind kind = Kind::Goes;
  uint8_t condition = 0; ///< Condition as encoded: 4 equal, 5 not equal, ...
  /// Bytes of arguments that a return removes from the stack.
  uint16_t releases = 0;
  bool indirect = false; ///< Whether the target is in `reg` or at `memory`.
  int8_t reg = -1;
  Address memory;
  uint64_t target = 0, next = 0;
};

/// Instructions that are executed in sequence.
struct Block {
  std::vector<BlockStep> steps;
  /// Number of instructions with the branch at the end.
  uint64_t instructions = 0;
  uint64_t vectorInstructions = 0; ///< Number of VectorInstruction steps.
  BlockEnd end;
  /// The blocks at which the last executions continued, without and with a
  /// branch taken, so that a loop needs no look-up.
  struct Successor {
    uint64_t address = 0;
    Block *block = nullptr;
  };
  Successor successors[2];
};

/// The blocks decoded so far. An instruction that neither this CPU nor the
/// software executes ends the process with a message that names it.
class Translation {
public:
  explicit Translation(CodeArena &arena) : arena_(arena) {}

  Block &blockAt(uint64_t address);

private:
  std::unique_ptr<Block> translate(uint64_t address);

  CodeArena &arena_;
  std::unordered_map<uint64_t, std::unique_ptr<Block>> blocks_;
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_TRANSLATION_H
