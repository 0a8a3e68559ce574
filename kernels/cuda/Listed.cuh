//===- Listed.cuh - The rows that SparseAttention reads ---------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LISTED_CUH
#define MOE_KERNELS_CUDA_LISTED_CUH

#include "kernels/cuda/Spans.cuh"

/// A token's list of rows: `rows` rows of its window from position `begin` on,
/// then `entries` entries. Its KV splits are `length` long, except for the
/// last.
struct Listed {
  int begin, rows, entries, length;
  __device__ int count() const { return rows + entries; }
};
MOE_DEVICE Listed listedFor(const SparseSplitsArgs &a, int position) {
  Listed list = {firstVisible(position, a.window), 0, 0, 0};
  if (a.window > 0)
    list.rows = position + 1 - list.begin;
  if (a.ratio > 0)
    list.entries = (position + 1) / a.ratio;
  if (a.chosen)
    list.entries = min(list.entries, a.topK);
  list.length = (list.count() + a.splits - 1) / a.splits;
  list.length = (list.length + 31) / 32 * 32; // Multiples of a block's rows.
  return list;
}

#endif // MOE_KERNELS_CUDA_LISTED_CUH
