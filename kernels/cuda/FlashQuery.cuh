//===- FlashQuery.cuh - FlashAttention's queries ----------------*- C++ -*-===//
//
// Included by FlashAttention.cu, after its tiles.
//
//===----------------------------------------------------------------------===//

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
