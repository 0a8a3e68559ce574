//===- LatentHalf.cuh - LatentMma's tiles of F16 or BF16 --------*- C++ -*-===//
//
// Included by LatentMma.cu. A tile has 32 rows as the cache has them.
//
//===----------------------------------------------------------------------===//

constexpr int kRowBytes = kWidth * 2, kTilePitch = kRowBytes + 16;
constexpr int kTileBytes = kKeys * kTilePitch;

/// The first of two columns of a query in half a step, `i` of the warp's.
MOE_DEVICE int queryColumn(int warp, int i, int c) {
  return warp * kSteps * 16 + 8 * i + 2 * c;
}
/// The column of element k of sums tile i.
MOE_DEVICE int valueColumn(int warp, int i, int k, int c) {
  return warp * kColumns * 8 + 8 * i + 2 * c + k;
}

/// Calls `each` with the elements of sums tiles whose columns follow each
/// other.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    each(i, 0, i, 1);
}

/// Copies rows from number `at` on in the background, with zeros after the last
/// one. Each lane looks up one row, so that a list's look-ups are in flight
/// together. Eight lanes have 128 bytes of a row: addresses of a lane's row
/// differ by constants.
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

/// Stores the scores of query g, or of g + 8 if `half` is 1, by row.
MOE_DEVICE void storeScores(float *to, const float (&scores)[kKeys / 8][4],
                            int half, int c) {
#pragma unroll
  for (int i = 0; i < kKeys / 8; ++i)
    *(float2 *)&to[8 * i + 2 * c] =
        make_float2(scores[i][2 * half], scores[i][2 * half + 1]);
}

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
