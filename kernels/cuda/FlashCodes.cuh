//===- FlashCodes.cuh - FlashAttention's tiles of Q8_0 ----------*- C++ -*-===//
//
// Included by FlashAttention.cu. A tile has kGroups groups of sixteen rows as
// the cache has them (KvCodes.cuh), of one KV head: [codes of the key's blocks
// of 64 columns | codes of the value's | scales of the key's blocks | scales of
// the value's]. In prefill, converting codes takes five instructions per mma.
//
//===----------------------------------------------------------------------===//

#include "kernels/cuda/KvCodes.cuh"

constexpr bool kHasCodes = true;
constexpr int kColumnTiles = (MOE_VALUE + 31) / 32 * 4;
constexpr int kKeyBlocks = (MOE_KEY + 63) / 64;
constexpr int kValueBlocks = (MOE_VALUE + 63) / 64;
constexpr int kScalesAt = (kKeyBlocks + kValueBlocks) * kBlockCodes;
constexpr int kGroupBytes =
    kScalesAt + (kKeyBlocks + kValueBlocks) * kBlockScales;
constexpr int kTileBytes = kGroups * kGroupBytes;

/// Begins the copies of this thread's share of group `group` of a tile. Rows
/// after the last one that is seen become zero, because nothing may have been
/// written there.
MOE_DEVICE void copyRows(u8 *tile, int group, int thread,
                         const AttentionArgs &a, int kvHead, const Group &from,
                         const Span &seen) {
  constexpr int kThreads = 32 * kCopyWarps, kChunks = kGroupBytes / 16;
  constexpr int kCodeChunks = kBlockCodes / 16, kScaleChunks = 4;
  const u8 *rows = a.kv.data + from.row * a.kv.rowStride;
  int blocks = kvBlocks(a.kv.width);
  // Blocks of the head's keys, and of its values.
  int keyAt = kvHead * kKeyBlocks;
  int valueAt = a.kvHeads * kKeyBlocks + kvHead * kValueBlocks;
  // A group that ends before the first row that is seen becomes zero as well.
  int left = from.position + 16 > seen.begin ? seen.end - from.position : 0;
#pragma unroll
  for (int i = 0; i < (kChunks + kThreads - 1) / kThreads; ++i) {
    int index = i * kThreads + thread;
    if (kChunks % kThreads != 0 && index >= kChunks)
      break;
    bool isCode = index < kScalesAt / 16;
    int of = isCode ? index : index - kScalesAt / 16;
    int each = isCode ? kCodeChunks : kScaleChunks;
    int block = of / each;
    block = block < kKeyBlocks ? keyAt + block : valueAt + block - kKeyBlocks;
    const u8 *source = rows + (isCode ? 0 : blocks * kBlockCodes) +
                       block * each * 16 + of % each * 16;
    int bytes = chunkBytes(index, left);
    copyAsync(tile + group * kGroupBytes + index * 16, bytes ? source : rows,
              bytes);
  }
}

/// The row of the tile whose score is element k of a lane's fragment of score
/// tile i, with c = lane % 4. Elements k and k + 2 have the same row.
MOE_DEVICE int keyOf(int i, int k, int c) {
  return i / 2 * 16 + 4 * c + k % 2 * 2 + i % 2;
}
/// The column of a value that element k of a lane's fragment of sums tile i
/// has.
MOE_DEVICE int valueColumn(int i, int k, int c) {
  return i / 4 * 32 + 4 * (2 * c + k % 2) + i % 4;
}

/// Calls each(i, k, j, l) for every two of a lane's sums of query g that are
/// neighbouring columns: element k of tile i and element l of tile j. Elements
/// k + 2 and l + 2 are the same columns of query g + 8.
template <class Each> MOE_DEVICE void forPairs(Each each) {
#pragma unroll
  for (int i = 0; i < kColumnTiles; i += 2)
#pragma unroll
    for (int k = 0; k < 2; ++k)
      each(i, k, i + 1, k);
}

/// scores += queries * keys of the tile. queryOf(fragment, step, tall) loads
/// sixteen columns of sixteen queries. The products of a block of 64 columns
/// are multiplied by the rows' scales before they are added.
template <class QueryOf>
MOE_DEVICE void multiplyKeys(float (&scores)[kTall][2 * kGroups][4],
                             const u8 *tile, QueryOf queryOf) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
    constexpr int kBlockSteps = kKvBlock / 16;
    float sums[kTall][2 * kGroups][4] = {};
#pragma unroll
    for (int i = 0; i < kBlockSteps; ++i) {
      int step = block * kBlockSteps + i;
      if (step >= kSteps)
        break;
      u32 query[kTall][kParts][4];
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
        queryOf(query[tall], step, tall);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        KeyCodes b = keyCodes(tile + group * kGroupBytes, step);
#pragma unroll
        for (int tall = 0; tall < kTall; ++tall) {
          addParts(sums[tall][2 * group], query[tall], b.even[0], b.even[1]);
          addParts(sums[tall][2 * group + 1], query[tall], b.odd[0], b.odd[1]);
        }
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float4 scale = scalesOf(tile + group * kGroupBytes + kScalesAt +
                              block * kBlockScales);
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          float &even = scores[tall][2 * group][k];
          float &odd = scores[tall][2 * group + 1][k];
          even =
              fmaf(sums[tall][2 * group][k], k % 2 ? scale.z : scale.x, even);
          odd = fmaf(sums[tall][2 * group + 1][k], k % 2 ? scale.w : scale.y,
                     odd);
        }
    }
  }
}

/// The scale of block `block` of the value in row `row` of a tile.
MOE_DEVICE float &valueScale(u8 *tile, int row, int block) {
  return *(float *)(tile + row / 16 * kGroupBytes + kScalesAt +
                    (kKeyBlocks + block) * kBlockScales + row % 16 * 4);
}
/// Calls each(scale) for this thread's share of the scales of a tile's values.
/// Together the threads of the kRingWarps warps that read the tile have all.
template <class Each> MOE_DEVICE void forValueScales(u8 *tile, Each each) {
  constexpr int kReaders = 32 * kRingWarps;
  for (int i = threadIdx.x % kReaders; i < kKeys * kValueBlocks; i += kReaders)
    each(valueScale(tile, i % kKeys, i / kKeys));
}

/// Replaces scales of a tile's values that are not finite by zero: a query that
/// does not see their rows has weights of zero there, and zero times NaN is
/// NaN. Sums of queries that see such a row become NaN here. All warps that
/// read the tile call this together.
template <class IsSeen>
MOE_DEVICE void hideNonFinite(float (&sums)[kTall][kColumnTiles][4], u8 *tile,
                              IsSeen isSeen) {
  bool isFound = false;
  forValueScales(tile, [&](float scale) { isFound |= !isFinite(scale); });
  if (!anyReader(isFound))
    return;
  for (int row = 0; row < kKeys; ++row)
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i)
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (!isFinite(valueScale(tile, row, i / 8)) &&
              isSeen(row, tall, k / 2))
            sums[tall][i][k] = nanValue();
  syncReaders();
  forValueScales(tile,
                 [](float &scale) { scale = isFinite(scale) ? scale : 0; });
  syncReaders();
}

/// sums += weights * values of the tile. Weights are multiplied by the scales
/// of a block of 64 columns before they become 16-bit numbers.
MOE_DEVICE void addValues(float (&sums)[kTall][kColumnTiles][4],
                          const float (&weights)[kTall][2 * kGroups][4],
                          const u8 *tile) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const u8 *rows = tile + group * kGroupBytes;
#pragma unroll
    for (int block = 0; block < kValueBlocks; ++block) {
      float4 scale =
          scalesOf(rows + kScalesAt + (kKeyBlocks + block) * kBlockScales);
      u32 p[kTall][kParts][4];
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall) {
        float x[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            float s =
                i ? (k % 2 ? scale.w : scale.y) : (k % 2 ? scale.z : scale.x);
            x[i][k] = weights[tall][2 * group + i][k] * s;
          }
        narrowWeights(p[tall], x[0], x[1]);
      }
#pragma unroll
      for (int q = 2 * block; q < 2 * block + 2; ++q) {
        if (4 * q >= kColumnTiles)
          break;
        uint4 v = valueCodes(rows + kKeyBlocks * kBlockCodes, q);
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          u32 low = codePair(v.x, b, v.z, b), high = codePair(v.y, b, v.w, b);
#pragma unroll
          for (int tall = 0; tall < kTall; ++tall)
            addParts(sums[tall][4 * q + b], p[tall], low, high);
        }
      }
    }
  }
}
