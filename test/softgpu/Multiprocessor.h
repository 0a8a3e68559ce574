//===- Multiprocessor.h - Replays recorded warps by cycles ------*- C++ -*-===//
//
// Four schedulers issue at most one instruction a cycle each, of a warp whose
// operands are ready and whose pipe is free; a warp issues in order. Memory is
// a chain of servers (port, this multiprocessor's part of L2 and of DRAM) with
// latencies behind them and a limit of bytes in flight.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_MULTIPROCESSOR_H
#define MOE_TEST_SOFTGPU_MULTIPROCESSOR_H

#include "test/softgpu/MachineCode.h"
#include "test/softgpu/Recording.h"

namespace softgpu {

struct ReplayInput {
  const Kernel *kernel = nullptr;
  const MachineCode *code = nullptr;
  const GpuModel *gpu = nullptr;
  /// For each op of the kernel, the part of what it reads beyond L1 that DRAM
  /// serves.
  std::vector<double> cold;
  /// Blocks in the order in which they begin.
  std::vector<const BlockTrace *> blocks;
  int resident = 1; ///< Number of blocks that run at a time.
  /// Rates of this multiprocessor in bytes per cycle.
  double l2Bytes = 0, dramBytes = 0;
  /// Stalls of the last block from so many cycles on are kept; 0: none.
  int leastStall = 0;
};

/// A time in which a warp issued nothing.
struct Stall {
  int warp = 0;                 ///< Index of the warp in its block.
  double cycle = 0, waited = 0; ///< End and length of the stall, in cycles.
  uint32_t op = 0; ///< Index of the instruction that was issued at its end.
};

/// The sums of cycles by what they were spent on.
struct ReplayResult {
  double cycles = 0;
  std::vector<double> ends; ///< End of each block, in ascending order.
  // Cycles in which a unit was busy, the busiest of the four parts.
  double issue = 0, floats = 0, integers = 0, special = 0, tensor = 0;
  double shared = 0; ///< Loads, stores and shuffles of all parts.
  double l2 = 0, dram = 0;
  std::vector<Stall> stalls; ///< Explained at ReplayInput::leastStall.
};

ReplayResult replay(const ReplayInput &input);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_MULTIPROCESSOR_H
