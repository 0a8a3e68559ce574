//===- StepBlock.h - Parameters that change with every step -----*- C++ -*-===//
//
// The block holds the parameters of a step in one piece of memory at a fixed
// address: number of tokens, positions, sequences, and the pages of their
// caches. Kernels, and a graph of kernels that was recorded once, read them
// from there. Token ids, hidden rows and chosen experts are buffers of the
// arena, which also have fixed addresses. The layout is:
//
//   Step | SequenceRows [room.sequences] | pages [room.pages]
//
// Pointers are addresses within the block, so one copy transfers the block to a
// device that is not the host.
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

/// Maximum size of a step.
struct StepRoom {
  int64_t sequences = 1;
  int64_t pages = 0; ///< Number of pages of all sequences.

  /// Returns the room that suffices for all phases of `plan`.
  static StepRoom of(const fb::Plan &plan);
  /// Bytes of a block.
  uint64_t bytes() const;
};

/// Writes `step`, which must fit in `room`, to `memory`. `address` is the
/// address of the block's first byte on the device that reads it. Returns the
/// number of bytes written from the block's beginning.
uint64_t writeStepBlock(const moek::Step &step, StepRoom room,
                        std::byte *memory, uint64_t address);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_STEPBLOCK_H
