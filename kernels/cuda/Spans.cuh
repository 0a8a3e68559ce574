//===- Spans.cuh - KV splits of attention -----------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_SPANS_CUH
#define MOE_KERNELS_CUDA_SPANS_CUH

#include "kernels/cuda/KvCache.cuh"

/// The fewest rows of a KV split, if there are several. As in
/// kernels/Scratch.h.
MOE_DEVICE int leastSplitRows(int splits) { return splits > 64 ? 64 : 128; }

/// Returns the first position that a token at `position` sees. A window of 0
/// means no window.
MOE_DEVICE int firstVisible(int position, int window) {
  return window > 0 ? max(position + 1 - window, 0) : 0;
}

/// A divisor and its reciprocal, which is computed where the object is made:
/// before the dividend is loaded. A compiler would compute it with the
/// division.
struct Divisor {
  u32 number, reciprocal;
  __device__ __forceinline__ explicit Divisor(u32 d) : number(d) {
    // The factor is 2^32 - 512, so that the approximation stays below 2^32 / d;
    // then a step of Newton's method.
    float inverse;
    asm volatile("rcp.approx.ftz.f32 %0, %1;"
                 : "=f"(inverse)
                 : "f"(__uint2float_rn(d)));
    reciprocal = __float2uint_rz(inverse * 4294966784.0f);
    reciprocal += __umulhi(reciprocal, 0 - d * reciprocal);
  }
  /// Returns n / number. The product with the reciprocal is at most two less.
  __device__ __forceinline__ u32 divide(u32 n) const {
    u32 quotient = __umulhi(n, reciprocal), rest = n - quotient * number;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bool isMore = rest >= number;
      quotient += isMore;
      rest -= isMore ? number : 0;
    }
    return quotient;
  }
};

/// KV splits of the positions that a sequence's rows see: split i begins at
/// base + i * length, and both are multiples of sixteen. As on the CPU
/// (kernels/cpu/KvSplits.h), so that either device can combine the other's
/// splits.
struct Spans {
  int base, length;
  /// Returns the split that has a position.
  __device__ __forceinline__ int splitOf(int position) const {
    return int(Divisor(u32(length)).divide(u32(position - base)));
  }
};
/// Returns the splits of a sequence. Callers make `splits` from an argument of
/// the kernel, before they load the sequence.
MOE_DEVICE Spans spansOf(const Sequence &s, const Divisor &splits, int window) {
  constexpr u32 kInTile = kKvTile - 1;
  u32 base = u32(firstVisible(s.position, window)) & ~kInTile;
  u32 rows = u32(s.position + s.count) - base;
  u32 length = splits.divide(rows + splits.number - 1);
  if (splits.number > 1)
    length = max(length, u32(leastSplitRows(int(splits.number))));
  return {int(base), int((length + kInTile) & ~kInTile)};
}

#endif // MOE_KERNELS_CUDA_SPANS_CUH
