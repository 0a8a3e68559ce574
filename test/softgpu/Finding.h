//===- Finding.h - Errors that the software GPU reports ---------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_FINDING_H
#define MOE_TEST_SOFTGPU_FINDING_H

#include <cstdint>
#include <string>
#include <string_view>

namespace softgpu {

enum class FindingKind : uint8_t {
  OutOfBounds, ///< There is no allocation at the address.
  UseAfterFree,
  Misaligned,
  Uninitialised, ///< The read memory or register was never written.
  ReadOnly,      ///< A write to memory that may only be read.
  SharedRace, ///< Accesses by two threads of a block with no barrier between.
  BlockRace,  ///< Accesses by two blocks of a grid without release and acquire.
  WriteConflict, ///< Lanes of one store write different values to one byte.
  DivergentBarrier,
  DivergentWarp, ///< A shfl, vote, mma, ... without all lanes that it names.
  AsyncRead,     ///< Access to a destination of cp.async before its wait.
  Mbarrier,      ///< Counts of an mbarrier that are impossible.
  AsyncProduct,  ///< Operands of wgmma without its fence, or before its wait.
  BarrierDeadlock,
  LaunchLimit,
  Trap,
  Endless
};
std::string_view findingName(FindingKind kind);

/// `text` names kernel, PTX line, instruction, block, thread, address and
/// allocation, where they exist.
struct Finding {
  FindingKind kind;
  std::string text;
  int line = 0; ///< Line in the PTX; 0: no instruction.
  uint64_t address = 0;
  uint32_t block[3] = {0, 0, 0}, thread[3] = {0, 0, 0};
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_FINDING_H
