//===- GpuModel.h - Rates and latencies of GPUs -----------------*- C++ -*-===//
//
// One table for lower bounds (test/kernels/cuda/Bound.h) and for the clock
// (Clock.h). GpuModel.cpp has the source of each figure.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_GPUMODEL_H
#define MOE_TEST_SOFTGPU_GPUMODEL_H

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

/// Cycles from issue to use of the result, for a warp without conflicts.
struct Latencies {
  int arithmetic = 4; ///< Float and integer instructions.
  int special = 22;   ///< Special functions and slow conversions.
  int shuffle = 23;
  int mma; ///< An m16n8k16 of F16 or m16n8k32 of int8.
  int shared, l1, l2, dram;
};

/// Rates are per cycle of a multiprocessor unless stated otherwise.
struct GpuModel {
  std::string_view name;
  int arch, multiprocessors;
  /// Boost clock in GHz; DRAM bandwidth in GB/s, as published.
  double gigahertz, gigabytes;
  double l2Bytes; ///< Share of a multiprocessor in the L2 bandwidth.
  /// Dense multiply-adds; F16 products with F32 sums.
  double int8Macs, halfMacs;
  int floatLanes, integerLanes;
  bool isShared; ///< Half of the float lanes also serve as integer lanes.
  // The members from here on are only used by the simulated clock.
  double mmaSync; ///< Fraction of int8Macs and halfMacs that mma.sync reaches.
  double dramEfficiency; ///< Fraction of `gigabytes` that reading reaches.
  int l1Kilobytes;       ///< Size of L1 and shared memory together.
  int l2Megabytes;
  Latencies latency;
  /// Multiprocessors of each part of the GPU that a cluster cannot leave
  /// (GPC); empty if the clock knows of none.
  std::array<int, 8> clusterParts = {};

  /// Returns how many clusters of so many blocks have room at once, if a block
  /// takes a multiprocessor.
  int clustersOf(int blocks) const;
};

/// RTX 3090, 4090, 5090, A100, H100.
std::span<const GpuModel> gpuModels();

/// Returns the names of all models.
std::vector<std::string> gpuNames();

/// Finds a model by name, such as "4090"; null if there is none.
const GpuModel *findGpuModel(std::string_view name);

/// Costs that are assumed to be the same on all GPUs of the table. They were
/// fitted (test/bench/README.md, "Simulated times").
struct ClockConstants {
  /// Between a launch's last instruction and the first of the next node of a
  /// graph, which depends on it.
  double nodeMicroseconds = 0.65;
  /// Cycles from the end of a block to the first instruction of its successor.
  int blockStart = 200;
  /// Bytes that a multiprocessor can have requested from L2 and DRAM.
  int bytesInFlight = 40 * 1024;
  /// The part of GpuModel::l2Bytes that is reached.
  double l2Efficiency = 0.8;
  /// Instructions of a scheduler after which it issues none for a cycle:
  /// register banks and moves that PTX does not have.
  int issuesPerBubble = 8;
  /// Bytes per cycle that shared memory gives tensor cores: as it gives loads,
  /// 32 banks of four bytes.
  double sharedBytes = 128;
  /// Bytes per cycle that L2 sends to one multiprocessor at most.
  double portBytes = 64;
  /// Cycles for 128 bytes of instructions that no warp of the multiprocessor
  /// has executed before; they are fetched in order, ahead of the warps.
  int fetchCycles = 16;
  /// From the last arrival at a cluster's barrier to the next instruction: a
  /// message from one multiprocessor to another takes 180 (arXiv 2402.13499).
  int clusterCycles = 200;
  int barrierCycles = 20; ///< From the last arrival to the next instruction.
  int branchCycles = 8;   ///< From a branch to the next instruction.
};
inline constexpr ClockConstants kClockConstants;

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_GPUMODEL_H
