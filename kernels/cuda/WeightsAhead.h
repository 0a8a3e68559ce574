//===- WeightsAhead.h - Weights that launches bring into L2 -----*- C++ -*-===//
//
// While the last block of a launch works alone, memory is idle, and the blocks
// that have ended can bring weights of later launches into L2 (canPrefetch() of
// Fuse.h). What each launch brings follows from sizes alone. The runtime lets
// launches do so, and the compiler predicts what it saves.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_WEIGHTSAHEAD_H
#define MOE_KERNELS_CUDA_WEIGHTSAHEAD_H

#include "kernels/OpCode.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moek::cuda {

/// A launch of a queue: what it reads, and whether it can bring weights.
struct WeightReader {
  bool canPrefetch = false;
  /// Whether the GPU waits for another device before the launch.
  bool isAfterWait = false;
  /// Bytes of each resident weight that it reads whatever the step is.
  std::vector<uint64_t> weights;
  /// The most bytes of other resident weights (experts') that it reads.
  uint64_t otherBytes = 0;
};

/// How much of its weights an instruction reads: all; those of the experts that
/// tokens choose; or nothing that is worth bringing ahead.
enum class WeightUse { None, Whole, Experts };
WeightUse weightUseOf(OpCode op);

/// Bytes of a weight that come into L2 before their launch begins.
struct AheadRange {
  size_t launch, weight; ///< WeightReader::weights[weight] of a later launch.
  uint64_t offset, bytes;
};

/// Returns what each of `launches`, one after another, brings into an L2 of
/// `l2Bytes` bytes: at most what a memory of `bytesPerSecond` delivers in the
/// few microseconds of a last block or, where the GPU waits for another device
/// after the launch, as much as L2 keeps. Weights come in the order in which
/// they are read, each byte once, and only if L2 keeps them until then beside
/// other weights that are read in between.
std::vector<std::vector<AheadRange>>
weightsAhead(std::span<const WeightReader> launches, uint64_t l2Bytes,
             double bytesPerSecond);

/// Returns, for each launch, whether it is the last one that can bring weights
/// before the GPU waits for another device.
std::vector<bool> lastBeforeWaits(std::span<const WeightReader> launches);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_WEIGHTSAHEAD_H
