//===- Memories.h - Budgets and traffic of memories -------------*- C++ -*-===//
//
// What follows from devices that share a memory: one budget, and one bandwidth.
// Every other device has a memory of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_MEMORIES_H
#define MOE_COMPILER_MACHINE_COSTMODEL_MEMORIES_H

#include "compiler/Machine/Targets/Target.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moec {

/// Bytes that the devices of a target may use.
class MemoryBudgets {
public:
  explicit MemoryBudgets(const TargetDesc &target);

  /// Returns the most that a device may use if no other uses its memory.
  int64_t of(size_t device) const;
  /// Returns the bytes that a device may use besides `used`, which has the
  /// bytes of each device; below 0 if it, or all devices of its memory
  /// together, use too many.
  int64_t left(size_t device, std::span<const int64_t> used) const;
  /// Returns whether all devices keep to their budgets.
  bool fit(std::span<const int64_t> used) const;
  /// Returns whether two devices have one memory.
  bool isSame(size_t a, size_t b) const { return memory_[a] == memory_[b]; }

private:
  std::vector<int64_t> budgets_;
  /// For each device: the index of the device that owns its memory.
  std::vector<size_t> memory_;
};

/// The times at which memories are read during a step. While devices that share
/// a memory work at the same time, it serves one after the other: together they
/// read no faster than the fastest of them alone. Where a device has its memory
/// to itself, its work takes the time that it takes.
class MemoryTraffic {
public:
  explicit MemoryTraffic(const TargetDesc &target);

  /// Returns the time at which work of a device ends that begins at `start` and
  /// takes `seconds` alone. It reads `bytes`, which keeps others from the
  /// memory; no more of them than the memory gives in that time count.
  double end(size_t device, double start, double seconds, double bytes);

private:
  struct Memory {
    /// Rate of the fastest device that reads this memory.
    double bytesPerSecond = 0;
    bool isShared = false;
    /// The times at which the memory is read: intervals in ascending order that
    /// do not overlap.
    std::vector<std::pair<double, double>> busy = {};
  };
  /// Indexed by device; unused for one that shares the memory of another.
  std::vector<Memory> memories_;
  std::vector<size_t> memory_;
};

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_MEMORIES_H
