//===- Scratch.h - Private memory a kernel needs per worker -----*- C++ -*-===//
//
// There is one formula for each op that needs such memory. The compiler sizes a
// plan with it, the plan verifier checks it, and the op kernel divides the
// memory by it. Each part of the memory is a multiple of 64 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_SCRATCH_H
#define MOE_KERNELS_SCRATCH_H

#include "kernels/Activation.h"
#include "kernels/KvCache.h"

#include <cstdint>

namespace moek {

/// Token rows that an op kernel passes to a GemmFn at a time: with more rows, a
/// panel of weights is expanded fewer times. 256 instead of 64 took 512-token
/// prefill of DeepSeek-V2-Lite from 108 to 114 tokens/s.
inline constexpr int64_t kTokenTile = 256;
/// Weight rows per call: 64 rows of 2048 4-bit columns are 72 KiB, inside L2.
inline constexpr int64_t kRowTile = 64;
/// Query rows and cached positions per block of the attention kernels.
inline constexpr int64_t kQueryTile = 16;
inline constexpr int64_t kKeyTile = 64;
/// The least work of a worker of LatentAttention besides rows: heads.
inline constexpr int64_t kLatentHeads = 8;
/// The most KV splits of a plan. Only a GPU has more than a CPU may have: a
/// block for each of its multiprocessors (an RTX 5090 has 170).
inline constexpr int64_t kMostKvSplits = 512;
inline constexpr int64_t kMostCpuKvSplits = 64;
/// The fewest rows of a KV split. Half as many where a GPU needs so many splits
/// that 4096 rows would not keep its multiprocessors busy otherwise. It follows
/// from the number of splits, so that any device can combine another's.
constexpr int64_t leastSplitRows(int64_t splits) {
  return splits > kMostCpuKvSplits ? 64 : 128;
}
/// Rows of a Q8_0 cache, and queries, that attention takes at a time.
inline constexpr int64_t kQ8Group = 256;
inline constexpr int64_t kQ8Queries = 4;
/// Queries of one head that MlaAttention handles in one pass over the cache; a
/// step with more tokens decompresses the cache once for each such span.
inline constexpr int64_t kQuerySpan = 2048;
/// Weight rows that AbsorbQuery and MlaAttention keep as floats: 8 rows of 512
/// columns are 16 KiB, half of L1.
inline constexpr int64_t kHeadRows = 8;

/// Rounds a number of floats up to whole cache lines.
constexpr int64_t scratchFloats(int64_t count) {
  return (count + 15) / 16 * 16;
}

/// Linear, ExpertsLinear: one output tile and the tile's row pointers.
constexpr int64_t gemmScratchBytes() {
  return kTokenTile * kRowTile * 4 + kTokenTile * 8;
}
/// GateUp, ExpertsGateUp: two output tiles.
constexpr int64_t gateUpScratchBytes() {
  return 2 * kTokenTile * kRowTile * 4 + kTokenTile * 8;
}
/// A tile of token rows of `cols` columns as A8, and pointers to them.
constexpr int64_t encodedTileBytes(int64_t tokens, int64_t cols) {
  return tokens * (a8RowBytes(cols) + 8);
}
/// HeadLinear: encoded activations.
constexpr int64_t headLinearScratchBytes(int64_t cols) {
  return encodedTileBytes(kTokenTile, cols);
}
/// AbsorbQuery: kHeadRows dequantised weight rows.
constexpr int64_t absorbQueryScratchBytes(int64_t latent) {
  return kHeadRows * scratchFloats(latent) * 4;
}
/// Q8Group and the parts that cpu/*/Q8Products.h add to it; AVX2, which has
/// queries as words, needs the most. `queries` are kept, of which
/// `mostTogether` are in use at a time; keys have `keyBlocks` blocks, and
/// values, which are transposed, have `transposedBlocks`.
constexpr int64_t q8ScratchBytes(int64_t queries, int64_t mostTogether,
                                 int64_t keyBlocks, int64_t transposedBlocks) {
  return queries * keyBlocks * kKvBlock * 2 +
         2 * scratchFloats(queries * keyBlocks) * 4 +
         mostTogether * kQ8Group * (4 + 2) +
         (mostTogether * kQ8Group / 4 + 63) / 64 * 64 +
         5 * scratchFloats(mostTogether) * 4 + kQ8Group * 2 +
         transposedBlocks * kQ8Group * kKvBlock + kQ8Queries * kQ8Group * 2;
}
/// LatentAttention: running maximum and sum per head, and either a block of
/// cache rows as floats with, per head, scores, a rescaling factor and copies
/// of maximum and sum; or, for a Q8_0 cache, integer products of the heads. The
/// weighted sums themselves grow in the output.
constexpr int64_t latentAttentionScratchBytes(int64_t heads, int64_t latent,
                                              int64_t rope) {
  int64_t floats = kKeyTile * scratchFloats(latent + rope) +
                   (kKeyTile + 3) * scratchFloats(heads);
  int64_t q8 = q8ScratchBytes(heads, heads, kvBlocks(latent + rope), 1);
  return 2 * scratchFloats(heads) * 4 + (floats * 4 > q8 ? floats * 4 : q8);
}
/// MlaAttention: running maximum and sum of a span of queries; kHeadRows rows
/// of a transposed W_UK, a block of cache rows, also as gemms read them, and
/// its keys or values as rows. Then either keys as columns and the scores of a
/// query tile with its rescaling factors; or, for a Q8_0 cache, a group of rows
/// in that layout and integer products of a query tile. The weighted sums
/// themselves grow in the output.
constexpr int64_t mlaAttentionScratchBytes(int64_t nope, int64_t rope,
                                           int64_t latent, int64_t value) {
  int64_t rows = (kHeadRows * scratchFloats(nope) +
                  kKeyTile * (scratchFloats(latent + rope) +
                              scratchFloats(nope > value ? nope : value)) +
                  2 * kQuerySpan) *
                     4 +
                 encodedTileBytes(kKeyTile, latent);
  int64_t floats = (kKeyTile * (nope + rope) + kQueryTile * (kKeyTile + 1)) * 4;
  int64_t keyBlocks = kvBlocks(nope) + kvBlocks(rope);
  int64_t q8 =
      kQ8Group *
          kvRowBytes(KvType::Q8_0, (keyBlocks + kvBlocks(value)) * kKvBlock) +
      q8ScratchBytes(kQueryTile, kQueryTile, keyBlocks, kvBlocks(value));
  return rows + (floats > q8 ? floats : q8);
}
/// Tokens whose queries of a group of heads Attention handles in one pass over
/// the cache: about 128 queries balance the cost of making a block.
constexpr int64_t attentionTokens(int64_t group) {
  return kQueryTile * (group < 8 ? 8 / group : 1);
}
/// Bytes of the running maxima and sums of attention: for the queries of a
/// tile, or for the heads of one token.
constexpr int64_t attentionStatsBytes(int64_t heads, int64_t group) {
  int64_t queries = attentionTokens(group) * group;
  return 2 * scratchFloats(queries > heads ? queries : heads) * 4;
}
/// Columns of a matrix in panels (cpu/Blocks.h) of the widest vectors.
constexpr int64_t panelFloats(int64_t columns) {
  return (columns + 63) / 64 * 64;
}
/// Attention: running maxima and sums. Then either a block of keys and of
/// values as panels, rows from which these are made, the scores and rescaling
/// factors of a tile's queries, all queries and their sums; or a block of keys
/// or values as floats with what latentAttentionScratchBytes() has for each
/// head; or, for a Q8_0 cache, integer products of those. The weighted sums
/// themselves grow in the output.
constexpr int64_t attentionScratchBytes(int64_t heads, int64_t kvHeads,
                                        int64_t key, int64_t value) {
  int64_t group = kvHeads > 0 && heads > kvHeads ? heads / kvHeads : 1;
  int64_t mostTogether = group > kQueryTile ? group : kQueryTile;
  int64_t row = scratchFloats(key > value ? key : value);
  int64_t tile = kKeyTile * (key + panelFloats(value) + row + mostTogether) +
                 scratchFloats(mostTogether) +
                 attentionTokens(group) * group * (key + scratchFloats(value));
  int64_t token = kKeyTile * scratchFloats(key > value ? key : value) +
                  (kKeyTile + 3) * scratchFloats(group);
  int64_t floats = tile > token ? tile : token;
  int64_t q8 = q8ScratchBytes(attentionTokens(group) * group, mostTogether,
                              kvBlocks(key), kvBlocks(value));
  return attentionStatsBytes(heads, group) +
         (floats * 4 > q8 ? floats * 4 : q8);
}
/// Columns of values of a worker's unit of DeltaRule: two vectors of AVX-512,
/// which take 4 cycles for a row. For a key of 128 the unit has 16 KiB, half of
/// L1.
inline constexpr int64_t kDeltaColumns = 32;
/// Rows that DeltaRule handles together, as products of matrices. With 16 rows
/// the work that grows with the chunk is 4 % of a row's, and a row's part of
/// loading and storing S is 6 %.
inline constexpr int64_t kDeltaChunk = 16;
/// DeltaRule: a head's S in whole columns, a chunk's keys, queries and faded
/// keys, two rows of decays, their products, and the written and the remaining
/// values (DeltaChunks.h).
constexpr int64_t deltaRuleScratchBytes(int64_t key, int64_t value) {
  int64_t columns = (value + kDeltaColumns - 1) / kDeltaColumns * kDeltaColumns;
  return (scratchFloats(key) * (columns + 3 * kDeltaChunk + 2) +
          2 * kDeltaChunk * (kDeltaChunk + kDeltaColumns)) *
         4;
}
/// Router: scores and biased scores of a token's experts, and scores of its
/// groups (at most as many), in double.
constexpr int64_t routerScratchBytes(int64_t experts) {
  return 3 * scratchFloats(experts) * 8;
}

} // namespace moek

#endif // MOE_KERNELS_SCRATCH_H
