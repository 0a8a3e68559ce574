//===- FlashPrompt.cuh - A warp's queries of a prompt -----------*- C++ -*-===//
//
// Included by FlashAttention.cu for prefill: how each kind of kernel reads its
// queries and writes its results.
//
//===----------------------------------------------------------------------===//

#ifdef MOE_PARTS
#include "kernels/cuda/FlashMerge.cuh"
#endif

/// Sixteen of a warp's queries, on their way to operands.
struct PromptQueries {
  Query query;
  float x[2][kSteps][4];

  /// Loads the queries from number `first` on. All loads are in flight
  /// together.
  __device__ __forceinline__ PromptQueries(const Work &work, int first)
      : query{{work.query(first + threadIdx.x % 32 / 4),
               work.query(first + threadIdx.x % 32 / 4 + 8)},
              int(threadIdx.x % 4),
              work.a.scale * kLog2E,
              {exponentFor(0), exponentFor(0)}} {
    query.read<true>(x, 0, 1);
  }
  /// Calls set(step, operand) for every sixteen columns. A product with such an
  /// operand, times `unit`, is a score times log2(e).
  template <class Set>
  __device__ __forceinline__ void narrow(float (&unit)[2], Set set) {
    if constexpr (kHasExponents)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        query.exponent[half] = exponentFor(Query::mostOf(x[half]));
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      u32 parts[1][4];
      query.narrowed(parts, x, step);
      set(step, parts[0]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      unit[half] = powerOfTwo(query.exponent[half]);
  }
};

/// Writes the results of a warp's queries, of which each sixteen begin with
/// number firstOf(tall), if the block has all of their sums.
template <class FirstOf>
MOE_DEVICE void writeAll(Work &work, FirstOf firstOf, float (&most)[kTall][2],
                         float (&sum)[kTall][2],
                         float (&sums)[kTall][kColumnTiles][4]) {
#ifdef MOE_PARTS
  if (!mergeParts(work, most, sum, sums))
    return;
#endif
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall) {
    addLanes(sum[tall]);
    writeSums(work, firstOf(tall), most[tall], sum[tall], sums[tall]);
  }
}
