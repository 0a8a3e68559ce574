//===- StepBlock.h - What changes from step to step -------------*- C++ -*-===//
//
// A step's parameters in one piece of memory, at an address that stays: rows,
// positions, sequences and the pages of their caches. Kernels, and a graph of
// them that was recorded once, find all of it there; token ids, hidden rows and
// the experts that were chosen are buffers of the arena, whose addresses stay
// too.
//
//   Step | SequenceRows [room.sequences] | pages [room.pages]
//
// Pointers are addresses in the block, so that a device that is not the host
// gets it with one copy.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_STEPBLOCK_H
#define MOE_RUNTIME_DEVICE_STEPBLOCK_H

#include "kernels/Types.h"

#include <cstddef>
#include <cstdint>

namespace moert {

namespace fb {
struct Plan;
} // namespace fb

/// What a step has at most.
struct StepRoom {
  int64_t sequences = 1;
  int64_t pages = 0; ///< Of all sequences together.

  /// Of any phase of `plan`.
  static StepRoom of(const fb::Plan &plan);
  /// Of a block.
  uint64_t bytes() const;
};

/// Writes `step`, which has room, to `memory`, for a block whose first byte has
/// `address` where it is read. Returns how many bytes from there on matter.
uint64_t writeStepBlock(const moek::Step &step, StepRoom room,
                        std::byte *memory, uint64_t address);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_STEPBLOCK_H
