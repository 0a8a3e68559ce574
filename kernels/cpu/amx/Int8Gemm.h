//===- Int8Gemm.h - Interleaved rows times A8K tokens -----------*- C++ -*-===//
//
// 64 weight rows become int8 tiles once, a chunk of columns at a time that
// stays in L2, and all tokens pass over them in groups whose sums stay in L1.
// A block is 256 columns, which have one scale per token and one per row: its
// int32 sums are scaled and added up in float.
//
// Measured on a Xeon of the fourth generation, cycles a tile product of 16: 16
// with its loads, 16.5 with sums that leave the tiles in time (BlockPipeline),
// 21 to 25 with sums scaled meanwhile. Then two of the core's three load ports
// are what is short: of 32 x 32 outputs a block's 16 products load 256 lines,
// scaling 224. Scales for 128 columns took 34 to 40, and all of it one after
// the other 67.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_INT8GEMM_H
#define MOE_KERNELS_CPU_AMX_INT8GEMM_H

#include "kernels/cpu/amx/Requantize.h"
#include "kernels/cpu/amx/TokenTiles.h"

namespace moek::amx {
namespace {

static_assert(kA8KBlock == kBlockCols);

/// A block of columns of all tokens, as tiles: up to two at a time.
class TokenBlock {
public:
  TokenBlock(const uint8_t *const *act, int64_t tokens)
      : act_(act), tokens_(tokens), split_(splitTokens(tokens)),
        stride_(tokens > 1 ? int64_t(uintptr_t(act[1]) - uintptr_t(act[0]))
                           : 0),
        strided_(haveStride(act, tokens, stride_)) {}

  const TileSplit &split() const { return split_; }

  /// Goes to columns [col, col + count).
  void enter(int64_t col, int64_t count) {
    col_ = col;
    // What lies behind a row's last column is multiplied with zeros.
    vectors_ = (count + kTileRowBytes - 1) / kTileRowBytes;
  }

  /// Tile `i`, until another that is as odd.
  TileRows tile(int64_t i) {
    int64_t first = i * split_.rows;
    if (strided_ && first + split_.rows <= tokens_)
      return {act_[first] + col_, stride_, kTileRowBytes};
    uint8_t(*copy)[kBlockCols] = copies_[i % 2];
    for (int64_t r = 0; r < split_.rows; ++r)
      for (int64_t v = 0; v < vectors_; ++v)
        _mm512_store_si512(
            copy[r] + v * kTileRowBytes,
            first + r < tokens_
                ? _mm512_loadu_si512(act_[first + r] + col_ + v * kTileRowBytes)
                : _mm512_setzero_si512());
    return {copy[0], kBlockCols, kTileRowBytes};
  }

private:
  const uint8_t *const *act_;
  int64_t tokens_;
  TileSplit split_;
  int64_t stride_;
  bool strided_;
  int64_t col_ = 0, vectors_ = 0;
  alignas(64) uint8_t copies_[2][kTileRows][kBlockCols];
};

/// Tokens whose sums over all columns stay in L1.
constexpr int64_t kGroupTokens = 64;
/// [token of the group][row]; rows are so far apart that those of a tile do not
/// share sets of the cache.
constexpr int64_t kGroupStride = kPanelRows + 16;
using GroupSums = float[kGroupTokens * kGroupStride];

/// Blocks of columns as tiles at a time: 64 rows of them are 128 KiB.
constexpr int64_t kChunkCols = 8 * kBlockCols;

/// Whose sums a product makes, and where they belong.
struct SumsPlace {
  const uint8_t *const *act;  ///< Of the tokens,
  int64_t tokens;             ///< as many;
  int64_t scale;              ///< offset in them of the block's scale.
  const WeightBlock *weights; ///< One or two times 16 rows.
  float *to;                  ///< In GroupSums, which they are added to.
};

/// Products of up to 2 x 2 tiles over blocks of columns, one after the other:
/// while tiles multiply a block, the sums of its predecessor, which left the
/// tiles just before these began anew, are scaled and added to their place,
/// those of a few tokens beside each product. So products follow each other
/// without a pause: a store of four tiles that the next product waits for takes
/// 64 cycles, scaling 32 x 32 sums some 200.
class BlockPipeline {
public:
  explicit BlockPipeline(int64_t tileTokens) : tileTokens_(tileTokens) {}

  /// `width` tiles along the columns of A tiles of tokens times B x 16 rows.
  template <int A, int B>
  MOE_INLINE void multiply(const TileRows *tokens, int64_t width,
                           const SumsPlace &place) {
    if (shape_ != 2 * A + B)
      flush();
    TileRows weights[B];
    for (int b = 0; b < B; ++b)
      weights[b] = {place.weights[b].tiles[0][0], kTileRowBytes, kTileBytes};
    bool follows = shape_ != 0;
    auto leave = [&]<int Token, int Weight>(SizeConstant<Token>,
                                            SizeConstant<Weight>)
        __attribute__((always_inline)) {
      if (follows)
        storeTile<Token, Weight>();
      tileZero<kSums + 2 * Token + Weight>();
    };
    multiplyStep<Int8Product, A, B>(tokens, weights, 0, leave,
                                    []() __attribute__((always_inline)){});
    // Variables of their own stay in registers, which an object's would not.
    const int32_t *sums = sums_;
    const uint8_t *const *act = last_.act;
    int64_t left = follows ? last_.tokens : 0, scale = last_.scale;
    float *to = last_.to;
    RowScales<B> rows(follows ? last_.weights : place.weights);
    shape_ = 2 * A + B;
    last_ = place;
    int64_t share = width > 1 ? kTileRows / B / (width - 1) + 1 : 0;
    auto beside = [&]() __attribute__((always_inline)) {
      for (int64_t i = 0; i < share && left > 0; ++i)
        scaleToken(sums, act, left, scale, rows, to);
    };
    for (int64_t k = 1; k < width; ++k)
      multiplyStep<Int8Product, A, B>(
          tokens, weights, k, [](auto, auto) __attribute__((always_inline)){},
          beside);
    while (left > 0)
      scaleToken(sums, act, left, scale, rows, to);
  }

  /// Until all sums are where they belong.
  void flush() {
    if (shape_ == 0)
      return;
    if (shape_ == 6)
      flush<2, 2>();
    else if (shape_ == 5)
      flush<2, 1>();
    else if (shape_ == 4)
      flush<1, 2>();
    else
      flush<1, 1>();
    shape_ = 0;
  }

private:
  /// [token][row of 32]
  static constexpr int64_t kSumsStride = 2 * 16;
  using Sums = int32_t[2 * kTileRows * kSumsStride];

  /// Of the one or two times 16 rows of a block.
  template <int B> struct RowScales {
    __m512 first, second;
    explicit MOE_INLINE RowScales(const WeightBlock *weights)
        : first(_mm512_load_ps(weights[0].scale)),
          second(_mm512_load_ps(weights[B - 1].scale)) {}
  };

  /// Adds the first of `left` tokens' sums, and goes to the next.
  template <int B>
  MOE_INLINE static void
  scaleToken(const int32_t *&sums, const uint8_t *const *&act, int64_t &left,
             int64_t scale, const RowScales<B> &rows, float *&to) {
    __m512 token =
        _mm512_set1_ps(*reinterpret_cast<const float *>(*act + scale));
    auto add = [&](int64_t at, __m512 row) __attribute__((always_inline)) {
      __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums + at));
      _mm512_store_ps(to + at, _mm512_fmadd_ps(sum, _mm512_mul_ps(row, token),
                                               _mm512_load_ps(to + at)));
    };
    add(0, rows.first);
    if constexpr (B == 2)
      add(16, rows.second);
    sums += kSumsStride;
    to += kGroupStride;
    ++act, --left;
  }

  template <int Token, int Weight> MOE_INLINE void storeTile() {
    tileStore<kSums + 2 * Token + Weight>(
        sums_ + Token * tileTokens_ * kSumsStride + Weight * 16,
        kSumsStride * int64_t(sizeof(int32_t)));
  }

  template <int A, int B> void flush() {
    forSums<A, B>(
        [&]<int Token, int Weight>(SizeConstant<Token>, SizeConstant<Weight>) {
          storeTile<Token, Weight>();
        });
    const int32_t *sums = sums_;
    RowScales<B> rows(last_.weights);
    while (last_.tokens > 0)
      scaleToken(sums, last_.act, last_.tokens, last_.scale, rows, last_.to);
  }

  int64_t tileTokens_;
  int shape_ = 0; ///< 2 A + B of the sums in tiles; 0: there are none.
  SumsPlace last_ = {};
  alignas(64) Sums sums_;
};

/// A group's sums of `rows` rows to the output, or added to it.
MOE_INLINE void storeGroup(const GroupSums &group, int64_t tokens, int64_t rows,
                           bool add, float *out, int64_t outStride) {
  for (int64_t r = 0; r < rows; r += 16) {
    __mmask16 mask = __mmask16(rows - r >= 16 ? 0xffff : (1 << (rows - r)) - 1);
    for (int64_t t = 0; t < tokens; ++t) {
      float *to = out + t * outStride + r;
      __m512 sum = _mm512_load_ps(group + t * kGroupStride + r);
      if (add)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to));
      _mm512_mask_storeu_ps(to, mask, sum);
    }
  }
}

MOE_INLINE int64_t atMost(int64_t count, int64_t most) {
  return count < most ? count : most;
}

/// At most kPanelRows rows times at most kPanelTokens tokens: 170 KiB of stack,
/// of which 40 are to stay in L1.
template <Format F>
void tileBlock(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t tokens, int64_t cols,
               float *out, int64_t outStride) {
  using Tile = avx512::Rows16Tile<F>;
  TokenBlock x(act, tokens);
  const auto [tileCount, tileTokens] = x.split();
  WeightBlock weights[kChunkCols / kBlockCols][kPanelRows / kRows16];
  alignas(64) GroupSums group;
  BlockPipeline pipeline(tileTokens);
  NextRows next(w, rows * wStride);
  TileScope scope{int(tileTokens)};
  auto forBlocksOf = [&](int64_t chunk, auto body) {
    for (int64_t col = 0; col < chunk; col += kBlockCols)
      body(col, atMost(chunk - col, kBlockCols), weights[col / kBlockCols]);
  };
  for (int64_t from = 0; from < cols; from += kChunkCols) {
    int64_t chunk = atMost(cols - from, kChunkCols);
    forBlocksOf(chunk, [&](int64_t col, int64_t count, WeightBlock *block) {
      for (int64_t r = 0; r < rows; r += kRows16) {
        next.fetch(count / Tile::kCols * Tile::kBytes);
        requantizeBlock<F>(w + r * wStride, from + col, count,
                           block[r / kRows16]);
      }
    });
    constexpr int64_t kGroupTiles = kGroupTokens / kTileRows;
    for (int64_t tile = 0; tile < tileCount; tile += kGroupTiles) {
      int64_t tiles = atMost(tileCount - tile, kGroupTiles);
      int64_t first = tile * tileTokens;
      int64_t count = atMost(tokens - first, tiles * tileTokens);
      std::memset(group, 0, size_t(count * kGroupStride) * sizeof(float));
      for (int64_t t = first; t < first + count; ++t)
        for (int64_t r = 0; r < rows; r += 16)
          prefetch<_MM_HINT_T0>(out + t * outStride, r * 4);
      forBlocksOf(chunk, [&](int64_t col, int64_t blockCols,
                             WeightBlock *block) {
        x.enter(from + col, blockCols);
        int64_t width = (blockCols + kTileRowBytes - 1) / kTileRowBytes;
        int64_t scale = cols + (from + col) / kA8Block * int64_t(sizeof(float));
        forTilePairs(tiles, [&]<int A>(SizeConstant<A>, int64_t i) {
          TileRows pair[2] = {x.tile(tile + i)};
          if (A == 2)
            pair[1] = x.tile(tile + i + 1);
          int64_t token = i * tileTokens;
          forRowPairs(rows, [&]<int B>(SizeConstant<B>, int64_t r,
                                       const __mmask16 *) {
            pipeline.multiply<A, B>(
                pair, width,
                {act + first + token, atMost(count - token, A * tileTokens),
                 scale, block + r / kRows16, group + token * kGroupStride + r});
          });
        });
      });
      pipeline.flush();
      storeGroup(group, count, rows, from != 0, out + first * outStride,
                 outStride);
    }
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_INT8GEMM_H
