//===- FlashQuery.cuh - FlashAttention's queries ----------------*- C++ -*-===//
//
// Included by FlashAttention.cu, after its tiles.
//
//===----------------------------------------------------------------------===//

/// What a block computes: queries of a KV head, from `first` on, and a split.
struct Work {
  const AttentionArgs &a;
  const Sequence &sequence;
  int kvHead, first, count; ///< count: queries of the whole sequence.
  Span span;
  i64 base; ///< Row of the sequence's first position, with MOE_CONTIGUOUS.

  /// Returns the positions that a query sees, the last one's after the last.
  __device__ __forceinline__ Span seenBy(int query) const {
    int position = sequence.position + min(query, count - 1) / kHeads;
    return {max(firstVisible(position, a.window), span.begin),
            min(position + 1, span.end)};
  }
  /// The row of a query. Rows of the tile beyond the last query read it again.
  __device__ __forceinline__ const float *query(int query) const {
    int i = min(query, count - 1);
    return a.q + (sequence.begin + i / kHeads) * a.qStride +
           i64(kvHead * kHeads + i % kHeads) * MOE_KEY;
  }
  __device__ __forceinline__ Group groupAt(int position) const {
#if defined(MOE_CONTIGUOUS)
    return {base + position, position};
#elif defined(MOE_RING)
    return {i64(sequence.state) * MOE_RING + position % MOE_RING, position};
#else
    // Without a branch: there is always something to load.
    const int *page = sequence.pages ? sequence.pages + position / kKvPage
                                     : (const int *)a.step;
    i64 row = i64(*page) * kKvPage + position % kKvPage;
    return {sequence.pages ? row : position, position};
#endif
  }
};

/// The column of a query, of two that follow each other, in a step's fragment.
MOE_DEVICE int queryColumn(int step, int half, int c) {
  return 16 * step + (kHasCodes ? 4 * c + 2 * half : 2 * c + 8 * half);
}

/// Whether queries are scaled by powers of two.
constexpr bool kHasExponents = MOE_KV == MOE_KV_F16;

/// Queries g and g + 8 of a warp as the fragments of steps, in one or two
/// parts. They are multiplied by `scale`, and by 2^-exponent.
struct Query {
  const float *row[2];
  int c;
  float scale;
  int exponent[2];

  /// `Steps` steps from `first` on, `by` apart, of which the last may be
  /// missing unless `AreThere`. All loads are in flight together.
  template <bool AreThere, int Steps>
  __device__ __forceinline__ void read(float (&x)[2][Steps][4], int first,
                                       int by) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < Steps; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          int column = queryColumn(first + i * by, k / 2, c) + k % 2;
          bool isThere = (AreThere && MOE_KEY % 16 == 0) || column < MOE_KEY;
          x[half][i][k] = isThere ? row[half][column] * scale : 0;
        }
  }
  /// The largest of a query's columns that four lanes have.
  template <int Steps>
  static __device__ __forceinline__ float mostOf(const float (&x)[Steps][4]) {
    float most = 0;
#pragma unroll
    for (int i = 0; i < Steps; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        most = fmaxf(most, fabsf(x[i][k]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    return fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
  }
  template <int Steps>
  __device__ __forceinline__ void narrowed(u32 (&parts)[kParts][4],
                                           const float (&x)[2][Steps][4],
                                           int i) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float scale = powerOfTwo(-exponent[j % 2]);
      const float *pair = x[j % 2][i] + j / 2 * 2;
      if constexpr (kParts == 2) {
        Split both = split(pair[0] * scale, pair[1] * scale);
        parts[0][j] = both.high;
        parts[kParts - 1][j] = both.low;
      } else {
        parts[0][j] = narrow(pair[0] * scale, pair[1] * scale);
      }
    }
  }
};
