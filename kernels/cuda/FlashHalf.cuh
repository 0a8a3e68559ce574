//===- FlashHalf.cuh - FlashAttention's tiles of F16 or BF16 ----*- C++ -*-===//
//
// Included by FlashAttention.cu. A tile is [kKeys][key columns], then
// [kKeys][value columns], as the cache has them. A row is a multiple of 128
// bytes, and chunk i of sixteen bytes is at i ^ (row % 8), so that eight rows
// of a matrix load use all banks. For products of warpgroups (Warpgroup.cuh),
// each 128 bytes of all rows follow each other.
//
//===----------------------------------------------------------------------===//

constexpr bool kHasCodes = false;
constexpr int kColumnTiles = (MOE_VALUE + 15) / 16 * 2;
constexpr int kKeyPitch = (MOE_KEY + 63) / 64 * 128;
constexpr int kValuePitch = (MOE_VALUE + 63) / 64 * 128;
constexpr int kTileBytes = kKeys * (kKeyPitch + kValuePitch);

#ifdef MOE_HAS_WARPGROUPS
/// From a row to the next one, and from 128 bytes of a row to the next ones.
template <int Pitch> constexpr int kNextRow = 128;
constexpr int kNextColumns = kKeys * 128;
#else
template <int Pitch> constexpr int kNextRow = Pitch;
constexpr int kNextColumns = 128;
#endif

/// Where a chunk of a row is.
template <int Pitch> MOE_DEVICE int chunkAt(int row, int chunk) {
  return row * kNextRow<Pitch> + chunk / 8 * kNextColumns +
         ((chunk ^ row) & 7) * 16;
}

/// Addresses of chunks of a lane's row, of which those that a multiple of eight
/// is added to differ by constants: `odd` is 0 or 1, and added to even numbers.
struct Swizzle {
  u32 of[4];
  __device__ __forceinline__ Swizzle(u32 row, int number, int odd) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      of[i] = row + ((2 * i) ^ odd ^ (number & 7)) * 16;
  }
  /// The address of a chunk is this plus `offsetOf(even)`.
  __device__ __forceinline__ u32 base(int even) const {
    return of[even / 2 % 4];
  }
  static __device__ constexpr int offsetOf(int even) { return even / 8 * 128; }
};

/// Copies a group's keys or values, whole rows of `Pitch` bytes. Eight threads
/// have 128 bytes of a row, so that all addresses in shared memory differ by
/// constants.
template <int Pitch>
MOE_DEVICE void copyColumns(u32 to, const u8 *from, i64 stride, int thread,
                            int begin, int end) {
  constexpr int kRowsAtATime = 4 * kCopyWarps;
  int first = thread / 8, chunk = thread % 8;
#ifdef MOE_CONTIGUOUS
  // Not known to be small: a compiler would make row and group bytes of a word
  // of which the others were never written (dp2a).
  asm("" : "+r"(first));
#endif
  from += first * stride + chunk * 16;
#pragma unroll
  for (int r = 0; r < 16; r += kRowsAtATime) {
    bool isThere = first + r >= begin && first + r < end;
    const u8 *row = isThere ? from + r * stride : from - first * stride;
    u32 toRow = to + chunkAt<Pitch>(first + r, chunk);
#pragma unroll
    for (int i = 0; i < Pitch / 128; ++i)
      copyAsync(toRow + i * kNextColumns, row + i * 128, isThere ? 16 : 0);
  }
}

/// Copies the keys of a group of rows; those that are not seen become zero.
MOE_DEVICE void copyKeys(u8 *tile, int group, int thread,
                         const AttentionArgs &a, int kvHead, const Group &from,
                         const Span &seen) {
  // Rows that are not there have the address of the group's first one.
  copyColumns<kKeyPitch>(sharedAddress(tile) + 16 * group * kNextRow<kKeyPitch>,
                         a.kv.data + from.row * a.kv.rowStride +
                             kvHead * kKeyPitch,
                         a.kv.rowStride, thread, seen.begin - from.position,
                         seen.end - from.position);
}
/// The same of values.
MOE_DEVICE void copyValues(u8 *tile, int group, int thread,
                           const AttentionArgs &a, int kvHead,
                           const Group &from, const Span &seen) {
  copyColumns<kValuePitch>(sharedAddress(tile) + kKeys * kKeyPitch +
                               16 * group * kNextRow<kValuePitch>,
                           a.kv.data + from.row * a.kv.rowStride +
                               a.kvHeads * kKeyPitch + kvHead * kValuePitch,
                           a.kv.rowStride, thread, seen.begin - from.position,
                           seen.end - from.position);
}
MOE_DEVICE void copyRows(u8 *tile, int group, int thread,
                         const AttentionArgs &a, int kvHead, const Group &from,
                         const Span &seen) {
  copyKeys(tile, group, thread, a, kvHead, from, seen);
  copyValues(tile, group, thread, a, kvHead, from, seen);
}

/// The key of element k of score tile i.
MOE_DEVICE int keyOf(int i, int k, int c) { return 8 * i + 2 * c + k % 2; }
/// The column of element k of sums tile i.
MOE_DEVICE int valueColumn(int i, int k, int c) {
  return 8 * i + 2 * c + k % 2;
}

/// Calls `each` with the elements of sums tiles whose columns follow each
/// other.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i)
    each(i, 0, i, 1);
}

/// Matrix load number `I` of a tile's keys.
template <int I> MOE_DEVICE void loadKeys(u32 (&b)[4], const Swizzle &at) {
  constexpr int step = I / kGroups, group = I % kGroups;
  if constexpr (I < kSteps * kGroups)
    loadMatrices<Swizzle::offsetOf(2 * step) + group * 16 * kKeyPitch>(
        b, at.base(2 * step));
}

/// The products of load `I`, which is in `b`, and those after it. The next load
/// is in flight meanwhile. Recursive instead of a loop, so that offsets are
/// part of instructions.
template <int I, class QueryOf>
MOE_DEVICE void multiplyKeysFrom(float (&scores)[kTall][2 * kGroups][4],
                                 u32 (&query)[kTall][kParts][4], u32 (&b)[2][4],
                                 const Swizzle &at, QueryOf queryOf) {
  if constexpr (I < kSteps * kGroups) {
    constexpr int step = I / kGroups, group = I % kGroups;
    if constexpr (group == 0)
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
        queryOf(query[tall], step, tall);
    loadKeys<I + 1>(b[(I + 1) % 2], at);
    if constexpr (group == 0 && step % 2 == 0 && kTall > 1)
      __syncwarp();
    const u32(&own)[4] = b[I % 2];
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall) {
      addParts(scores[tall][2 * group], query[tall], own[0], own[1]);
      addParts(scores[tall][2 * group + 1], query[tall], own[2], own[3]);
    }
    multiplyKeysFrom<I + 1>(scores, query, b, at, queryOf);
  }
}

template <class QueryOf>
MOE_DEVICE void multiplyKeys(float (&scores)[kTall][2 * kGroups][4],
                             const u8 *tile, QueryOf queryOf) {
  int lane = threadIdx.x % 32;
  // Rows 0 .. 7 with columns 0 .. 7 and 8 .. 15, then rows 8 .. 15.
  int row = lane / 16 * 8 + lane % 8;
  Swizzle at(sharedAddress(tile) + row * kKeyPitch, row, lane / 8 % 2);
  u32 query[kTall][kParts][4], b[2][4];
  loadKeys<0>(b[0], at);
  multiplyKeysFrom<0>(scores, query, b, at, queryOf);
}

MOE_DEVICE bool isInfiniteOrNaN(u32 half) {
  return (half & kInfinities & 0xffff) == (kInfinities & 0xffff);
}
/// Replaces what is not finite by zero.
MOE_DEVICE u32 finiteOnly(u32 pair) {
  return (isInfiniteOrNaN(pair) ? 0 : pair & 0xffff) |
         (isInfiniteOrNaN(pair >> 16) ? 0 : pair & 0xffff0000);
}

/// Calls `each` with the words that a thread of those that read the tile has.
/// Columns that follow a value are left out: they may never have been written.
template <class Each> MOE_DEVICE void forValues(u8 *values, Each each) {
  constexpr int kReaders = 32 * kRingWarps;
  for (int i = threadIdx.x % kReaders; i < kKeys * kValuePitch / 16;
       i += kReaders) {
    int row = i / (kValuePitch / 16), chunk = i % (kValuePitch / 16);
    if (chunk < kColumnTiles)
      each(*(uint4 *)(values + chunkAt<kValuePitch>(row, chunk)));
  }
}

/// Makes the sums of columns NaN in which a query sees a value that is not
/// finite.
template <class IsSeen>
MOE_DEVICE void spoil(float (&sums)[kTall][kColumnTiles][4], const u8 *values,
                      IsSeen isSeen) {
  int c = threadIdx.x % 4;
  for (int row = 0; row < kKeys; ++row)
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      u32 x = *(const u32 *)(values + chunkAt<kValuePitch>(row, i) + 4 * c);
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (isInfiniteOrNaN(x >> k % 2 * 16) && isSeen(row, tall, k / 2))
            sums[tall][i][k] = nanValue();
    }
}

/// Replaces values of a tile that are not finite by zero, because a weight of
/// zero would not hide them from queries that do not see them. Those that do
/// get their NaN here. All warps that read the tile call this together.
template <class IsSeen>
MOE_DEVICE void hideNonFinite(float (&sums)[kTall][kColumnTiles][4], u8 *tile,
                              IsSeen isSeen) {
  constexpr u32 kCarry = 0x80008000 - kInfinities;
  u8 *values = tile + kKeys * kKeyPitch;
  u32 found = 0;
  forValues(values, [&](const uint4 &x) {
    found |= ((x.x & 0x7fff7fff) + kCarry) | ((x.y & 0x7fff7fff) + kCarry) |
             ((x.z & 0x7fff7fff) + kCarry) | ((x.w & 0x7fff7fff) + kCarry);
  });
  if (!anyReader((found & 0x80008000) != 0))
    return;
  spoil(sums, values, isSeen);
  syncReaders();
  forValues(values, [](uint4 &x) {
    x = make_uint4(finiteOnly(x.x), finiteOnly(x.y), finiteOnly(x.z),
                   finiteOnly(x.w));
  });
  syncReaders();
}

constexpr int kValueLoads = kColumnTiles / 2; ///< Of sixteen rows.

/// Matrix load number `I` of a tile's values.
template <int I> MOE_DEVICE void loadValues(u32 (&b)[4], const Swizzle &at) {
  constexpr int group = I / kValueLoads, column = I % kValueLoads * 2;
  if constexpr (group < kGroups)
    loadTransposed<kKeys * kKeyPitch + group * 16 * kValuePitch +
                   Swizzle::offsetOf(column)>(b, at.base(column));
}

/// The products of load `I`, which is in `b`, and those after it.
template <int I>
MOE_DEVICE void addValuesFrom(float (&sums)[kTall][kColumnTiles][4],
                              u32 (&p)[kTall][kParts][4], u32 (&b)[2][4],
                              const float (&weights)[kTall][2 * kGroups][4],
                              const Swizzle &at) {
  if constexpr (I < kGroups * kValueLoads) {
    constexpr int group = I / kValueLoads, column = I % kValueLoads * 2;
    if constexpr (column == 0)
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
        narrowWeights(p[tall], weights[tall][2 * group],
                      weights[tall][2 * group + 1]);
    loadValues<I + 1>(b[(I + 1) % 2], at);
    const u32(&own)[4] = b[I % 2];
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall) {
      addParts(sums[tall][column], p[tall], own[0], own[1]);
      addParts(sums[tall][column + 1], p[tall], own[2], own[3]);
    }
    addValuesFrom<I + 1>(sums, p, b, weights, at);
  }
}

/// Adds a tile's values.
MOE_DEVICE void addValues(float (&sums)[kTall][kColumnTiles][4],
                          const float (&weights)[kTall][2 * kGroups][4],
                          const u8 *tile) {
  int lane = threadIdx.x % 32;
  // Rows 0 .. 7 and 8 .. 15 by columns 0 .. 7, then by columns 8 .. 15.
  int row = lane / 8 % 2 * 8 + lane % 8;
  Swizzle at(sharedAddress(tile) + row * kValuePitch, row, lane / 16);
  u32 p[kTall][kParts][4], b[2][4];
  loadValues<0>(b[0], at);
  addValuesFrom<0>(sums, p, b, weights, at);
}
