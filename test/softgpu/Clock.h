//===- Clock.h - Predicts the time of launches ------------------*- C++ -*-===//
//
// The time is predicted from a recording of some of a launch's blocks: blocks
// are dealt to multiprocessors as these become free, and the multiprocessor
// that ends last is replayed (Multiprocessor.h). README.md, "Time", says what
// is modelled.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CLOCK_H
#define MOE_TEST_SOFTGPU_CLOCK_H

#include "test/softgpu/MachineCode.h"
#include "test/softgpu/Recording.h"

#include <string>

namespace softgpu {

struct LaunchTime {
  double seconds = 0; ///< Time from the first instruction to the last.
  double cycles = 0;
  /// Blocks of the grid; blocks that were recorded.
  uint64_t blocks = 0, executed = 0;
  int resident = 0; ///< Blocks that a multiprocessor has at once.
  int busy = 0;     ///< Number of multiprocessors that have blocks.
  /// Stalls of the last block that was replayed: see `leastStall` of timeOf().
  std::vector<std::string> stalls;
  // For the multiprocessor that ends last: the part of the time in which each
  // unit was busy.
  double issue = 0, floats = 0, integers = 0, special = 0, tensor = 0,
         shared = 0, l2 = 0, dram = 0;

  /// The busiest unit, or "latency" if none is busy for half of the time.
  std::string_view bound() const;
};

/// Returns the order in which blocks of a grid should be recorded, so that any
/// number of the first ones are spread evenly over the grid.
std::vector<uint64_t> sampleOrder(uint64_t blocks);

/// Predicts the time of a recorded launch on `recording.gpu`. With
/// `leastStall`, lists where warps waited for so many cycles.
LaunchTime timeOf(const Kernel &kernel, const LaunchShape &shape,
                  const Resources &resources, const Recording &recording,
                  int leastStall = 0);

/// The time of a sequence of launches in a graph, each of which depends on the
/// one before.
double secondsOfGraph(const std::vector<LaunchTime> &launches,
                      const GpuModel &gpu);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_CLOCK_H
