//===- FlashQuery.cuh - FlashAttention's queries ----------------*- C++ -*-===//
//
// What a block of FlashAttention.cu computes, and its queries as operands of
// mma. Included by that file after FlashHalf.cuh or FlashCodes.cuh.
//
//===----------------------------------------------------------------------===//

/// What a block computes: kRows queries of KV head `kvHead`, from number
/// `first` of the sequence on, with the positions `span` of a split or part.
/// Query i of a sequence is head i % kHeads of those that share the KV head, of
/// row i / kHeads.
struct Work {
  const AttentionOf &a;
  Sequence sequence;
  int kvHead, first;
  int count; ///< The tile has no queries from this index on.
  Span span;
  Span seen; ///< Keys of `span` that at least one query of the tile sees.
  /// With MOE_CONTIGUOUS: the cache row of the sequence's position 0.
  i64 base;
#ifdef MOE_PARTS
  /// Whether other blocks have other keys of the same queries.
  __device__ __forceinline__ bool isPart() const {
    return span.end != kAllKeys;
  }
  /// Whether the result is that of a KV split, which another kernel combines.
  __device__ __forceinline__ bool isSplit() const { return false; }
#else
  int split; ///< Number of the KV split; -1: the block sees all keys.

  __device__ __forceinline__ bool isSplit() const { return split >= 0; }
#endif

  /// Returns the positions of `span` that a query sees. Numbers beyond the last
  /// query stand for the last one.
  __device__ __forceinline__ Span seenBy(int query) const {
    int position = sequence.position + min(query, count - 1) / kHeads;
    return {max(firstVisible(position, a.window), span.begin),
            min(position + 1, span.end)};
  }
  /// Returns the elements of a query. Numbers beyond the last query stand for
  /// the last one.
  __device__ __forceinline__ const float *query(int query) const {
    int i = min(query, count - 1);
    return a.q + (sequence.begin + int(i / kHeads)) * a.qStride +
           i64(kvHead * kHeads + int(i % kHeads)) * MOE_KEY;
  }
  /// Returns the row of the result, or of a split's sums, that the query's head
  /// is in.
  __device__ __forceinline__ float *outOf(int query) const {
    i64 row = sequence.begin + query / kHeads;
#ifndef MOE_PARTS
    if (isSplit())
      row = row * a.splits + split;
#endif
    return a.out + row * a.outStride;
  }
  __device__ __forceinline__ int headOf(int query) const {
    return kvHead * kHeads + query % kHeads;
  }
  /// Returns the positions that all of the tile's queries see.
  __device__ __forceinline__ Span common() const {
    return {seenBy(first + kRows - 1).begin, seenBy(first).end};
  }
  /// Returns the first row of the sixteen rows of the cache that begin at
  /// `position`, or if no query sees these, of some that are there.
  __device__ __forceinline__ i64 rowOf(int position) const {
    int least = seen.begin / 16 * 16;
    if (position < least || position >= seen.end)
      position = least;
#if defined(MOE_CONTIGUOUS)
    return base + position;
#elif defined(MOE_RING)
    return i64(sequence.state) * MOE_RING + position % MOE_RING;
#else
    // This needs no branch, because there is always something to load.
    const int *page = sequence.pages ? sequence.pages + position / kKvPage
                                     : (const int *)a.step;
    i64 row = i64(*page) * kKvPage + position % kKvPage;
    return sequence.pages ? row : position;
#endif
  }

  /// Finds the sequence and queries of tile `index`, and returns whether there
  /// are any. Tiles are numbered across all sequences; the rows of a tile
  /// belong to one sequence and, with MOE_PARTS, have the same division into
  /// parts.
  __device__ __forceinline__ bool findTile(int index) {
    // The first sequence is loaded before it is known that there is one.
    int sequences = a.step->sequences;
    sequence = loadSequence(a.step->sequence);
    base = 0;
#ifdef MOE_PARTS
    for (int s = 1;; ++s) {
      if (s <= sequences) {
        for (int row = 0; row < sequence.count;) {
          int end =
              min(sequence.count,
                  row + kPartRows - (sequence.position + row) % kPartRows);
          first = row * kHeads + index * kRows;
          count = end * kHeads;
          if (first < count)
            return true;
          index -= (count - row * kHeads + kRows - 1) / kRows;
          row = end;
        }
      }
      if (s >= sequences)
        return false;
      sequence = loadSequence(a.step->sequence + s);
    }
#else
    first = index * kRows;
    count = sequence.count * kHeads;
    for (int s = 1; MOE_RARE(s > sequences || first >= count); ++s) {
      if (s >= sequences)
        return false;
      index -= (count + kRows - 1) / kRows;
      base += (sequence.position + sequence.count + 15) / 16 * 16;
      sequence = loadSequence(a.step->sequence + s);
      first = index * kRows;
      count = sequence.count * kHeads;
    }
    return true;
#endif
  }

#ifdef MOE_PARTS
  /// The number of the tile, of those whose keys are divided, that a block has.
  __device__ __forceinline__ int dividedTile(int block) const {
    return (block - a.wholeHeads * a.tiles) %
           ((a.kvHeads - a.wholeHeads) * a.tiles);
  }
#endif

  /// Finds the block's tile and positions, and returns whether there are any.
  /// Tiles that see the most keys come first.
  __device__ __forceinline__ bool findSpan(const uint3 blockIdx,
                                           const uint3 gridDim) {
#ifdef MOE_PARTS
    int index = blockIdx.x, whole = a.wholeHeads * a.tiles;
    int part = 0;
    bool isDivided = index >= whole;
    if (isDivided) { // The last parts, which may be short, come last.
      part = (index - whole) / ((a.kvHeads - a.wholeHeads) * a.tiles);
      index = dividedTile(index);
    }
    kvHead = (isDivided ? a.wholeHeads : 0) + index / a.tiles;
    if (!findTile(a.tiles - 1 - index % a.tiles))
      return false;
    int length = partLength(sequence.position + first / kHeads, MOE_PARTS);
    if (!isDivided || length == kAllKeys) {
      span = {0, kAllKeys};
      return part == 0;
    }
    span = {part * length, (part + 1) * length};
#else
    kvHead = blockIdx.z;
    Divisor splits(u32(a.splits));
    if (!findTile(gridDim.x - 1 - blockIdx.x))
      return false;
    Spans spans = spansOf(sequence, splits, a.window);
    int own = blockIdx.y;
    span = {spans.base + own * spans.length,
            spans.base + (own + 1) * spans.length};
    split = a.splits > 1 ? own : -1;
#endif
    return true;
  }
  /// Finds what the block with this index computes, and returns whether there
  /// is anything.
  __device__ __forceinline__ bool find(const uint3 blockIdx,
                                       const uint3 gridDim) {
    if (!findSpan(blockIdx, gridDim))
      return false;
    seen = {seenBy(first).begin, seenBy(first + kRows - 1).end};
    return seen.begin < seen.end;
  }
};

/// Two neighbouring columns, of which `count` exist; the others are zero. With
/// MOE_PAIRS rows are aligned to eight bytes, and both are one load or store.
struct Pair {
  float x, y;
};
MOE_DEVICE Pair loadPair(const float *from, int count) {
#ifdef MOE_PAIRS
  if (count >= 2) {
    float2 pair = *(const float2 *)from;
    return {pair.x, pair.y};
  }
#endif
  return {count > 0 ? from[0] : 0, count > 1 ? from[1] : 0};
}
MOE_DEVICE void storePair(float *to, float x, float y, int count) {
#ifdef MOE_PAIRS
  if (count >= 2) {
    *(float2 *)to = make_float2(x, y);
    return;
  }
#endif
  if (count > 0)
    to[0] = x;
  if (count > 1)
    to[1] = y;
}

/// The first of the two neighbouring columns of a query in register 2 `half`
/// (row g) or 2 `half` + 1 (row g + 8) of operand A of a step. With codes of
/// Q8_0 the elements of k have another order (KvCodes.cuh).
MOE_DEVICE int queryColumn(int step, int half, int c) {
  return 16 * step + (kHasCodes ? 4 * c + 2 * half : 2 * c + 8 * half);
}

/// Whether queries are multiplied by the scale of scores by multiply(), some
/// time after read(), so that the copies of the cache begin while they are
/// loaded. In prefill, which has no registers left, read() multiplies.
constexpr bool kIsLate = kRings > 1;
/// Whether queries are scaled by a power of two, so that F16 does not overflow.
constexpr bool kHasExponents = MOE_KV == MOE_KV_F16;

/// The lane's queries g and g + 8 of sixteen, or g alone of eight, on their way
/// to operands A. Numbers are x[query][step][element]: elements 0 and 1 are the
/// columns from queryColumn(step, 0, c) on, 2 and 3 those from
/// queryColumn(step, 1, c) on. They are multiplied by `scale`, and by
/// 2^-exponent when they are narrowed.
struct Query {
  const float *row[kHalves];
  int c;
  float scale;
  int exponent[kHalves];

  /// Loads `Steps` steps, from `first` on and `by` apart; unless `AreThere` the
  /// last one may be beyond the key. All loads are in flight together.
  template <bool AreThere, int Steps>
  __device__ __forceinline__ void read(float (&x)[kHalves][Steps][4], int first,
                                       int by) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int i = 0; i < Steps; ++i)
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
          int column = queryColumn(first + i * by, k / 2, c);
          constexpr bool isWhole = AreThere && MOE_KEY % 16 == 0;
          Pair pair = loadPair(row[half] + column,
                               isWhole ? 2 : min(MOE_KEY - column, 2));
          x[half][i][k] = kIsLate ? pair.x : pair.x * scale;
          x[half][i][k + 1] = kIsLate ? pair.y : pair.y * scale;
        }
  }
  /// Multiplies by `scale` what read() has loaded, if kIsLate.
  template <int Steps>
  __device__ __forceinline__ void
  multiply(float (&x)[kHalves][Steps][4]) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
#pragma unroll
      for (int i = 0; i < Steps; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          x[half][i][k] *= scale;
  }
  /// The largest absolute value of those columns of a query that its four lanes
  /// have.
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
                                           const float (&x)[kHalves][Steps][4],
                                           int i) const {
#pragma unroll
    for (int j = 0; j < 4; j += 3 - kHalves) {
      int half = kHalves == 2 ? j % 2 : 0;
      float scale = powerOfTwo(-exponent[half]);
      const float *pair = x[half][i] + j / 2 * 2;
      // The lower rows g hold high parts, rows g + 8 low parts.
      if constexpr (kHalves == 1) {
        Split both = split(pair[0] * scale, pair[1] * scale);
        parts[0][j] = both.high;
        parts[0][j + 1] = both.low;
      } else if constexpr (kParts == 2) {
        Split both = split(pair[0] * scale, pair[1] * scale);
        parts[0][j] = both.high;
        parts[kParts - 1][j] = both.low;
      } else {
        parts[0][j] = narrow(pair[0] * scale, pair[1] * scale);
      }
    }
  }
};
