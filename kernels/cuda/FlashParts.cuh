//===- FlashParts.cuh - Keys of a prompt's attention in parts ---*- C++ -*-===//
//
// Tiles of queries that do not fill the last wave of blocks leave most
// multiprocessors idle in it. So some KV heads' tiles are divided: MOE_PARTS
// blocks have a part of the keys each, and CombineHeads.cu adds their sums in
// the order of parts. The host chooses the heads and the number of parts from
// shapes alone. Where a row's parts begin depends on its own position alone, so
// that its result has the same bits wherever it is in a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_FLASHPARTS_CUH
#define MOE_KERNELS_CUDA_FLASHPARTS_CUH

#include "kernels/cuda/Device.cuh"

constexpr int kAllKeys = 0x40000000;

/// Returns the keys of a part for a row at `position`: rows of the same
/// kPartRows positions have the same parts. Rows near the beginning are not
/// divided: storing and adding their sums would take longer than it saves.
MOE_DEVICE int partLength(int position, int parts) {
  constexpr int kFewRows = 2 * kPartRows, kUnit = 64;
  int end = (position / kPartRows + 1) * kPartRows;
  return end <= kFewRows
             ? kAllKeys
             : ((end + parts - 1) / parts + kUnit - 1) / kUnit * kUnit;
}

#endif // MOE_KERNELS_CUDA_FLASHPARTS_CUH
