//===- Spans.cuh - Parts of the cache that blocks share out -----*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_SPANS_CUH
#define MOE_KERNELS_CUDA_SPANS_CUH

#include "kernels/cuda/KvCache.cuh"

constexpr int kLatentSpan = 128; // kernels/Scratch.h

/// The first position that a token at `position` sees; a window of 0 is none.
MOE_DEVICE int firstVisible(int position, int window) {
  return window > 0 ? max(position + 1 - window, 0) : 0;
}

/// Spans of what a sequence sees, cut into `splits`: `base` and multiples of
/// `length` after it. As on the CPU (kernels/cpu/Spans.h), so that either adds
/// up the other's.
struct Spans {
  int base, length;
};
MOE_DEVICE Spans spansOf(const Sequence &s, int splits, int window) {
  int base = firstVisible(s.position, window) / kKvTile * kKvTile;
  int length = (s.position + s.count - base + splits - 1) / splits;
  if (length < kLatentSpan && splits > 1)
    length = kLatentSpan;
  return {base, (length + kKvTile - 1) / kKvTile * kKvTile};
}

#endif // MOE_KERNELS_CUDA_SPANS_CUH
