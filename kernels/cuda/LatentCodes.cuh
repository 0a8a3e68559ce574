//===- LatentCodes.cuh - LatentMma's tiles of Q8_0 --------------*- C++ -*-===//
//
// Included by LatentMma.cu. A tile has two groups of sixteen rows as the cache
// has them: codes of all blocks of 64 columns, then their scales (KvCodes.cuh).
// A warp multiplies one step of sixteen columns of each block, so that a lane
// loads the scales of a step with one instruction.
//
//===----------------------------------------------------------------------===//

#include "kernels/cuda/KvCodes.cuh"

constexpr int kBlocks = kWidth / kKvBlock;
static_assert(kSteps == kBlocks && kColumns % 4 == 0, "units for each warp");
constexpr int kGroupBytes = kBlocks * (kBlockCodes + kBlockScales);
constexpr int kGroups = kKeys / kKvTile, kTileBytes = kGroups * kGroupBytes;

/// The first of the two neighbouring columns of a query that are the warp's
/// half step number `i`: registers 0 and 1 (i even) or 2 and 3 (i odd) of
/// operand A of its step i / 2.
MOE_DEVICE int queryColumn(int warp, int i, int c) {
  return i / 2 * kKvBlock + 16 * warp + 4 * c + 2 * (i % 2);
}
/// The column of a value that elements k and k + 2 of a lane's fragment of the
/// warp's sums tile i have.
MOE_DEVICE int valueColumn(int warp, int i, int k, int c) {
  return warp * kColumns * 8 + i / 4 * 32 + 4 * (2 * c + k) + i % 4;
}

/// Calls each(i, k, j, l) for every two of a lane's sums of query g that are
/// neighbouring columns: element k of tile i and element l of tile j. Elements
/// k + 2 and l + 2 are the same columns of query g + 8.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumns; i += 2)
#pragma unroll
    for (int k = 0; k < 2; ++k)
      each(i, k, i + 1, k);
}

/// Begins the copies of a tile: rows from number `at` on, a multiple of
/// sixteen; rows after the last one become zero.
MOE_DEVICE void copyTile(u8 *tile, const Seen &seen, int at) {
  constexpr int kOwn = kThreads / kGroups, kChunks = kGroupBytes / 16;
  int group = threadIdx.x / kOwn, from = at + group * kKvTile;
  const u8 *rows = seen.row(from < seen.end ? from : at);
#pragma unroll
  for (int i = 0; i < (kChunks + kOwn - 1) / kOwn; ++i) {
    int chunk = i * kOwn + threadIdx.x % kOwn;
    if (kChunks % kOwn != 0 && chunk >= kChunks)
      break;
    int bytes = chunkBytes(chunk, seen.end - from);
    copyAsync(tile + group * kGroupBytes + chunk * 16,
              bytes ? rows + chunk * 16 : rows, bytes);
  }
  commitCopies();
}

// scores += (high + low) * keys of the tile, over the warp's columns, where
// high and low are the parts of the queries.
MOE_DEVICE void multiplyKeys(float (&scores)[kKeys / 8][4], const u8 *tile,
                             int warp, const u32 (&high)[kSteps][4],
                             const u32 (&low)[kSteps][4]) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block)
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const u8 *rows = tile + group * kGroupBytes;
      KeyCodes b = keyCodes(rows, 4 * block + warp);
      float even[4] = {}, odd[4] = {};
      mma(even, high[block], b.even[0], b.even[1]);
      mma(odd, high[block], b.odd[0], b.odd[1]);
      mma(even, low[block], b.even[0], b.even[1]);
      mma(odd, low[block], b.odd[0], b.odd[1]);
      float4 scale =
          scalesOf(rows + kBlocks * kBlockCodes + block * kBlockScales);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float &x = scores[2 * group][k], &y = scores[2 * group + 1][k];
        x = fmaf(even[k], k % 2 ? scale.z : scale.x, x);
        y = fmaf(odd[k], k % 2 ? scale.w : scale.y, y);
      }
    }
}

/// Stores a lane's scores of query g, or of g + 8 if `half` is 1, in the order
/// of the tile's rows.
MOE_DEVICE void storeScores(float *to, const float (&scores)[kKeys / 8][4],
                            int half, int c) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const float *even = scores[2 * group] + 2 * half;
    const float *odd = scores[2 * group + 1] + 2 * half;
    *(float4 *)&to[16 * group + 4 * c] =
        make_float4(even[0], odd[0], even[1], odd[1]);
  }
}

// sums += weights * values of the tile, for the warp's columns. Weights are
// multiplied by the scales of a block of columns before they are split.
MOE_DEVICE void addValues(float (&sums)[kColumns][4],
                          const float (&weights)[kHeads][kWeightPitch],
                          const u8 *tile, int warp) {
  int lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const u8 *rows = tile + group * kGroupBytes;
    // A unit of 32 columns is half of a block.
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      int unit = warp * (kColumns / 4) + i;
      float4 scale =
          scalesOf(rows + kBlocks * kBlockCodes + unit / 2 * kBlockScales);
      u32 p[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float4 x = *(const float4 *)&weights[g + 8 * half][16 * group + 4 * c];
        Split even = split(x.x * scale.x, x.z * scale.z);
        Split odd = split(x.y * scale.y, x.w * scale.w);
        p[0][half] = even.high;
        p[1][half] = even.low;
        p[0][2 + half] = odd.high;
        p[1][2 + half] = odd.low;
      }
      uint4 v = valueCodes(rows, unit);
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        u32 b0 = codePair(v.x, b, v.z, b), b1 = codePair(v.y, b, v.w, b);
        mma(sums[4 * i + b], p[0], b0, b1);
        mma(sums[4 * i + b], p[1], b0, b1);
      }
    }
  }
}
