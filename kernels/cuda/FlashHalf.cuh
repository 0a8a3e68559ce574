//===- FlashHalf.cuh - FlashAttention's tiles of F16 or BF16 ----*- C++ -*-===//
//
// Included by FlashAttention.cu. A tile is [kKeys][key columns], then
// [kKeys][value columns], as the cache has them. A row is a multiple of 128
// bytes, and of each 128 the sixteen bytes (a chunk) with number i are at place
// i ^ (row % 8), so that eight rows of a matrix load use all banks. For
// products of warpgroups (Warpgroup.cuh), the first 128 bytes of all rows come
// first, then the next 128 bytes of all rows.
//
//===----------------------------------------------------------------------===//

constexpr bool kHasCodes = false;
constexpr int kColumnTiles = (MOE_VALUE + 15) / 16 * 2;
constexpr int kKeyPitch = (MOE_KEY + 63) / 64 * 128;
constexpr int kValuePitch = (MOE_VALUE + 63) / 64 * 128;
constexpr int kTileBytes = kKeys * (kKeyPitch + kValuePitch);

#ifdef MOE_HAS_WARPGROUPS
/// Bytes from a row to the next one, and from 128 bytes of a row to its next
/// 128.
template <int Pitch> constexpr int kNextRow = 128;
constexpr int kNextColumns = kKeys * 128;
#else
template <int Pitch> constexpr int kNextRow = Pitch;
constexpr int kNextColumns = 128;
#endif

/// Offset of sixteen bytes with number `chunk` of row `row` from the first row.
template <int Pitch> MOE_DEVICE int chunkAt(int row, int chunk) {
  return row * kNextRow<Pitch> + chunk / 8 * kNextColumns +
         ((chunk ^ row) & 7) * 16;
}

/// Shared addresses for a lane's matrix loads: those of the chunks `even` +
/// `odd` of one row, for any even number `even` and an `odd` of 0 or 1 that is
/// the lane's. The swizzle changes only the lowest three bits of a chunk's
/// number, so that four registers and a constant per load are enough.
struct Swizzle {
  u32 of[4];
  __device__ __forceinline__ Swizzle(u32 row, int number, int odd) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      of[i] = row + ((2 * i) ^ odd ^ (number & 7)) * 16;
  }
  /// The address of chunk `even` + odd is base(even) + offsetOf(even).
  __device__ __forceinline__ u32 base(int even) const {
    return of[even / 2 % 4];
  }
  static __device__ constexpr int offsetOf(int even) { return even / 8 * 128; }
};

/// Begins the copies of rows `begin` .. `end` - 1 of a group's keys or values,
/// which are `Pitch` bytes each and `stride` bytes apart, to the shared address
/// `to`; the others of the sixteen rows become zero. Eight threads have 128
/// bytes of a row, so that all of a thread's addresses in shared memory differ
/// by constants.
template <int Pitch>
MOE_DEVICE void copyColumns(u32 to, const u8 *from, i64 stride, int thread,
                            int begin, int end) {
  constexpr int kRowsAtATime = 4 * kCopyWarps;
  int first = thread / 8, chunk = thread % 8;
#ifdef MOE_CONTIGUOUS
  // Hides from the compiler that the number is small: it would pack row and
  // group into bytes of one word for dp2a, whose other bytes were never
  // written.
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

/// Begins the copies of this thread's share of the keys of group `group` of a
/// tile; rows that are not seen become zero.
MOE_DEVICE void copyKeys(u8 *tile, int group, int thread,
                         const AttentionArgs &a, int kvHead, const Group &from,
                         const Span &seen) {
  // copyColumns() takes the address of the group's first row for rows that are
  // not seen.
  copyColumns<kKeyPitch>(sharedAddress(tile) + 16 * group * kNextRow<kKeyPitch>,
                         a.kv.data + from.row * a.kv.rowStride +
                             kvHead * kKeyPitch,
                         a.kv.rowStride, thread, seen.begin - from.position,
                         seen.end - from.position);
}
/// Copies values in the same way.
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

/// The row of the tile whose score is element k of a lane's fragment of score
/// tile i, with c = lane % 4. Elements k and k + 2 have the same row.
MOE_DEVICE int keyOf(int i, int k, int c) { return 8 * i + 2 * c + k % 2; }
/// The column of a value that element k of a lane's fragment of sums tile i
/// has.
MOE_DEVICE int valueColumn(int i, int k, int c) {
  return 8 * i + 2 * c + k % 2;
}

/// Calls each(i, k, j, l) for every two of a lane's sums of query g that are
/// neighbouring columns: element k of tile i and element l of tile j. Elements
/// k + 2 and l + 2 are the same columns of query g + 8.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i)
    each(i, 0, i, 1);
}

/// Matrix load number `I` of a tile's keys: columns 16 s .. 16 s + 15 of the
/// sixteen rows of group I % kGroups, with s = I / kGroups. b[0] and b[1] are
/// the operand B of the group's first eight rows, b[2] and b[3] that of the
/// others.
template <int I> MOE_DEVICE void loadKeys(u32 (&b)[4], const Swizzle &at) {
  constexpr int step = I / kGroups, group = I % kGroups;
  if constexpr (I < kSteps * kGroups)
    loadMatrices<Swizzle::offsetOf(2 * step) + group * 16 * kKeyPitch>(
        b, at.base(2 * step));
}

/// scores += queries * keys, for matrix loads I and all after it. The keys of
/// load I are in b[I % 2]; those of load I + 1 are loaded to the other half
/// while they are multiplied. Recursive instead of a loop, so that offsets are
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
// scores += queries * keys of the tile; queryOf(fragment, step, tall) loads
// sixteen columns of sixteen queries.
MOE_DEVICE void multiplyKeys(float (&scores)[kTall][2 * kGroups][4],
                             const u8 *tile, QueryOf queryOf) {
  int lane = threadIdx.x % 32;
  // The order of the four matrices: rows 0 .. 7 by columns 0 .. 7 and 8 .. 15,
  // then rows 8 .. 15 by the same columns.
  int row = lane / 16 * 8 + lane % 8;
  Swizzle at(sharedAddress(tile) + row * kKeyPitch, row, lane / 8 % 2);
  u32 query[kTall][kParts][4], b[2][4];
  loadKeys<0>(b[0], at);
  multiplyKeysFrom<0>(scores, query, b, at, queryOf);
}

MOE_DEVICE bool isInfiniteOrNaN(u32 half) {
  return (half & kInfinities & 0xffff) == (kInfinities & 0xffff);
}
/// Replaces the halves of a word that are not finite by zero.
MOE_DEVICE u32 finiteOnly(u32 pair) {
  return (isInfiniteOrNaN(pair) ? 0 : pair & 0xffff) |
         (isInfiniteOrNaN(pair >> 16) ? 0 : pair & 0xffff0000);
}

/// Calls each(chunk) for this thread's share of a tile's values. Together the
/// threads of the kRingWarps warps that read the tile have all. Chunks behind a
/// value's last column are left out: they may never have been written.
template <class Each> MOE_DEVICE void forValues(u8 *values, Each each) {
  constexpr int kReaders = 32 * kRingWarps;
  for (int i = threadIdx.x % kReaders; i < kKeys * kValuePitch / 16;
       i += kReaders) {
    int row = i / (kValuePitch / 16), chunk = i % (kValuePitch / 16);
    if (chunk < kColumnTiles)
      each(*(uint4 *)(values + chunkAt<kValuePitch>(row, chunk)));
  }
}

/// Makes a sum NaN if its query sees a value in its column that is not finite.
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

/// Replaces values of a tile that are not finite by zero: a query that does not
/// see their rows has weights of zero there, and zero times NaN is NaN. Sums of
/// queries that see such a row become NaN here. All warps that read the tile
/// call this together.
template <class IsSeen>
MOE_DEVICE void hideNonFinite(float (&sums)[kTall][kColumnTiles][4], u8 *tile,
                              IsSeen isSeen) {
  // Added to a half without its sign, this carries into the sign bit if the
  // half is an infinity or a NaN.
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

/// Number of matrix loads for a group of rows.
constexpr int kValueLoads = kColumnTiles / 2;

/// Matrix load number `I` of a tile's values, transposed: columns 8 n .. 8 n +
/// 15 of the sixteen rows of group I / kValueLoads, with n = I % kValueLoads *
/// 2. b[0] and b[1] are the operand B of sums tile n, b[2] and b[3] that of
/// tile n + 1.
template <int I> MOE_DEVICE void loadValues(u32 (&b)[4], const Swizzle &at) {
  constexpr int group = I / kValueLoads, column = I % kValueLoads * 2;
  if constexpr (group < kGroups)
    loadTransposed<kKeys * kKeyPitch + group * 16 * kValuePitch +
                   Swizzle::offsetOf(column)>(b, at.base(column));
}

/// sums += weights * values, for matrix loads I and all after it, with one load
/// ahead as in multiplyKeysFrom(). `p` has the current group's weights as
/// 16-bit numbers.
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

/// sums += weights * values of the tile.
MOE_DEVICE void addValues(float (&sums)[kTall][kColumnTiles][4],
                          const float (&weights)[kTall][2 * kGroups][4],
                          const u8 *tile) {
  int lane = threadIdx.x % 32;
  // The order of the four matrices: rows 0 .. 7 and 8 .. 15 by columns 0 .. 7,
  // then the same rows by columns 8 .. 15.
  int row = lane / 8 % 2 * 8 + lane % 8;
  Swizzle at(sharedAddress(tile) + row * kValuePitch, row, lane / 16);
  u32 p[kTall][kParts][4], b[2][4];
  loadValues<0>(b[0], at);
  addValuesFrom<0>(sums, p, b, weights, at);
}
