//===- AmxExecutor.h - Executes AMX in software upon SIGILL -----*- C++ -*-===//
//
// On a CPU without AMX a tile instruction raises SIGILL. While an AmxExecutor
// exists, the signal handler decodes and executes the instruction and continues
// after it, so that tests run the machine code that ships. Tiles belong to a
// thread, as in hardware; counts include all threads. If the CPU has AMX,
// nothing is installed and nothing is counted.
//
// An instruction that a CPU would refuse ends the process with a message that
// names the fault, the instruction and the configuration. A tile row in memory
// that is not mapped is a segmentation fault, as in hardware.
//
// Linking moe_amx_executor into a test also makes hostSupports(Isa::Amx) true
// in it (on a CPU with AVX-512) and keeps an executor alive from then on.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_AMX_AMXEXECUTOR_H
#define MOE_TEST_AMX_AMXEXECUTOR_H

#include "test/amx/TileState.h"

#include <array>
#include <csignal>

namespace moek::test {

struct TileCounts {
  std::array<uint64_t, kTileOps> executed;
  /// Multiply-accumulates of the products as configured, and of as many
  /// products of full tiles.
  uint64_t macs, capacity;

  uint64_t of(TileOp op) const { return executed[size_t(op)]; }
  uint64_t products() const; ///< Number of executed TDP* of all kinds.
  uint64_t loads() const;    ///< Number of executed TILELOADD and TILELOADDT1.
};

/// Executes an instruction with the address `at` in this thread, counts it, and
/// ends the process as described above if a CPU would raise a fault. `general`
/// contains the general registers, by their numbers in the encoding.
void executeTileInstruction(const TileInstruction &instruction,
                            const uint64_t *general, uint64_t at);

class AmxExecutor {
public:
  AmxExecutor();
  ~AmxExecutor();
  AmxExecutor(const AmxExecutor &) = delete;
  AmxExecutor &operator=(const AmxExecutor &) = delete;

  /// Whether this CPU and system run tile instructions themselves.
  static bool isNative();

  /// Counts since the process began or since resetCounts().
  static TileCounts counts();
  static void resetCounts();
};

} // namespace moek::test

#endif // MOE_TEST_AMX_AMXEXECUTOR_H
