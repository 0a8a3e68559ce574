//===- Spans.cuh - Parts of the cache that blocks share out -----*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_SPANS_CUH
#define MOE_KERNELS_CUDA_SPANS_CUH

#include "kernels/cuda/KvCache.cuh"

constexpr int kLatentSpan = 128; // kernels/Scratch.h

/// Rows of a span of what a sequence sees, cut into `splits`: as on the CPU
/// (kernels/cpu/Spans.h), so that either adds up the other's.
MOE_DEVICE int spanLength(const Sequence &s, int splits) {
  int visible = s.position + s.count;
  int length = (visible + splits - 1) / splits;
  if (length < kLatentSpan && splits > 1)
    length = kLatentSpan;
  return (length + kKvTile - 1) / kKvTile * kKvTile;
}

#endif // MOE_KERNELS_CUDA_SPANS_CUH
