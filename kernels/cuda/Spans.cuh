//===- Spans.cuh - KV splits of attention -----------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_SPANS_CUH
#define MOE_KERNELS_CUDA_SPANS_CUH

#include "kernels/cuda/KvCache.cuh"

/// As in kernels/Scratch.h.
MOE_DEVICE int leastSplitRows(int splits) { return splits > 64 ? 64 : 128; }

/// Returns the first position that a token at `position` sees. A window of 0
/// means no window.
MOE_DEVICE int firstVisible(int position, int window) {
  return window > 0 ? max(position + 1 - window, 0) : 0;
}

/// KV splits of the rows that a sequence sees: they begin at `base` and at
/// multiples of `length` after it. As on the CPU (kernels/cpu/KvSplits.h), so
/// that either device can combine the other's splits.
struct Spans {
  int base, length;
};
MOE_DEVICE Spans spansOf(const Sequence &s, int splits, int window) {
  int base = firstVisible(s.position, window) / kKvTile * kKvTile;
  int length = (s.position + s.count - base + splits - 1) / splits;
  if (splits > 1)
    length = max(length, leastSplitRows(splits));
  return {base, (length + kKvTile - 1) / kKvTile * kKvTile};
}

#endif // MOE_KERNELS_CUDA_SPANS_CUH
