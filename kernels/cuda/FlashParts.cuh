//===- FlashParts.cuh - Keys of a prompt's attention in parts ---*- C++ -*-===//
//
// Tiles of queries that do not fill the last wave of blocks leave most
// multiprocessors idle in it. So the tiles of some KV heads are divided:
// MOE_PARTS blocks each take a part of the keys of a tile, and then add their
// sums (FlashMerge.cuh). The host chooses the heads and the number of parts
// from shapes alone. Where a row's parts begin depends on its own position
// alone, so that its result has the same bits wherever it is in a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FLASHPARTS_CUH
#define MOE_KERNELS_CUDA_FLASHPARTS_CUH

#include "kernels/cuda/Device.cuh"

/// More positions than any sequence has: the length of the only part of a row
/// whose keys are not divided.
constexpr int kAllKeys = 0x40000000;

/// Returns how many positions a part has for a row at `position`; part i begins
/// at i times that. It is the same for all rows with the same position /
/// kPartRows. Rows near the beginning are not divided (kAllKeys): storing and
/// adding their sums would take longer than it saves.
MOE_DEVICE int partLength(int position, int parts) {
  constexpr int kFewRows = 2 * kPartRows, kUnit = 64;
  int end = (position / kPartRows + 1) * kPartRows;
  return end <= kFewRows
             ? kAllKeys
             : ((end + parts - 1) / parts + kUnit - 1) / kUnit * kUnit;
}

#endif // MOE_KERNELS_CUDA_FLASHPARTS_CUH
