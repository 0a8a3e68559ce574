//===- LatentHalf.cuh - LatentMma's tiles of F16 or BF16 --------*- C++ -*-===//
//
// Included by LatentMma.cu. A tile has 32 rows as the cache has them, each
// followed by sixteen bytes, so that ldmatrix reads eight rows from all banks.
//
//===----------------------------------------------------------------------===//

constexpr int kRowBytes = kWidth * 2, kTilePitch = kRowBytes + 16;
constexpr int kTileBytes = kKeys * kTilePitch;

/// The first of the two neighbouring columns of a query that are the warp's
/// half step number `i`: registers 0 and 1 (i even) or 2 and 3 (i odd) of
/// operand A of its step i / 2.
MOE_DEVICE int queryColumn(int warp, int i, int c) {
  return warp * kSteps * 16 + 8 * i + 2 * c;
}
/// The column of a value that elements k and k + 2 of a lane's fragment of the
/// warp's sums tile i have.
MOE_DEVICE int valueColumn(int warp, int i, int k, int c) {
  return warp * kColumns * 8 + 8 * i + 2 * c + k;
}

/// Calls each(i, k, j, l) for every two of a lane's sums of query g that are
/// neighbouring columns: element k of tile i and element l of tile j. Elements
/// k + 2 and l + 2 are the same columns of query g + 8.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    each(i, 0, i, 1);
}

/// Begins the copies of a tile: the rows from number `at` on; rows after the
/// last one become zero. Lane i of each warp looks up row `at` + i, so that the
/// look-ups of a list are in flight together. Eight lanes copy 128 bytes of a
/// row at a time, so that a lane's addresses differ by constants.
MOE_DEVICE void copyTile(u8 *tile, const Seen &seen, int at) {
  constexpr int kTogether = 4 * kWarps * kTeams;
  static_assert(kKeys % kTogether == 0 && kRowBytes % 128 == 0, "whole rows");
  int lane = threadIdx.x % 32;
  u64 own = u64(seen.row(at + lane < seen.end ? at + lane : at));
#pragma unroll
  for (int i = 0; i < kKeys / kTogether; ++i) {
    int r = i * kTogether + threadIdx.x / 8, byte = threadIdx.x % 8 * 16;
    bool isThere = at + r < seen.end;
    const u8 *row = (const u8 *)__shfl_sync(kAllLanes, own, r) + byte;
    u32 to = sharedAddress(tile) + r * kTilePitch + byte;
#pragma unroll
    for (int j = 0; j < kRowBytes; j += 128)
      copyAsync(to + j, row + j, isThere ? 16 : 0);
  }
  commitCopies();
}

// scores += (high + low) * keys of the tile, over the warp's columns, where
// high and low are the parts of the queries.
MOE_DEVICE void multiplyKeys(float (&scores)[kKeys / 8][4], const u8 *tile,
                             int warp, const u32 (&high)[kSteps][4],
                             const u32 (&low)[kSteps][4]) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int two = 0; two < kKeys / 16; ++two) {
      // ldmatrix order of the 8 x 8 tiles: rows 0 .. 7 with columns 0 .. 7
      // and 8 .. 15, then rows 8 .. 15 with the same columns.
      int row = two * 16 + lane / 16 * 8 + lane % 8;
      int column = (warp * kSteps + step) * 16 + lane / 8 % 2 * 8;
      u32 b[4];
      loadMatrices(b, tile + row * kTilePitch + column * 2);
      mma(scores[2 * two], high[step], b[0], b[1]);
      mma(scores[2 * two], low[step], b[0], b[1]);
      mma(scores[2 * two + 1], high[step], b[2], b[3]);
      mma(scores[2 * two + 1], low[step], b[2], b[3]);
    }
}

/// Stores a lane's scores of query g, or of g + 8 if `half` is 1, in the order
/// of the tile's rows.
MOE_DEVICE void storeScores(float *to, const float (&scores)[kKeys / 8][4],
                            int half, int c) {
#pragma unroll
  for (int i = 0; i < kKeys / 8; ++i)
    *(float2 *)&to[8 * i + 2 * c] =
        make_float2(scores[i][2 * half], scores[i][2 * half + 1]);
}

// sums += weights * values of the tile, for the warp's columns; weights are
// split into two parts.
MOE_DEVICE void addValues(float (&sums)[kColumns][4],
                          const float (&weights)[kHeads][kWeightPitch],
                          const u8 *tile, int warp) {
  int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    u32 p[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 x = *(
          const float2 *)&weights[g + i % 2 * 8][step * 16 + i / 2 * 8 + 2 * c];
      Split parts = split(x.x * kWeightScale, x.y * kWeightScale);
      p[0][i] = parts.high;
      p[1][i] = parts.low;
    }
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      // Rows 0 .. 7 and 8 .. 15 by columns 0 .. 7, then by columns 8 .. 15.
      int row = step * 16 + lane / 8 % 2 * 8 + lane % 8;
      int column = (warp * kColumns + i + lane / 16) * 8;
      u32 b[4];
      loadTransposed(b, tile + row * kTilePitch + column * 2);
      mma(sums[i], p[0], b[0], b[1]);
      mma(sums[i], p[1], b[0], b[1]);
      mma(sums[i + 1], p[0], b[2], b[3]);
      mma(sums[i + 1], p[1], b[2], b[3]);
    }
  }
}
