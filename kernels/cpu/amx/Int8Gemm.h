//===- Int8Gemm.h - Interleaved rows times A8K tokens -----------*- C++ -*-===//
//
// Block by block of kBlockCols columns: 32 weight rows become int8 tiles once,
// 8 KiB that stay in L1, and all tokens pass over them, 32 at a time. A block's
// int32 sums, one for each part with a token scale of its own, are scaled and
// added to the output in memory: per 32 x 32 outputs 64 vectors of nine
// instructions, of which three store, beside 16 products of 16 cycles, which
// the out-of-order core overlaps. (With four parts it would be five stores:
// more cycles than the products take.)
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_INT8GEMM_H
#define MOE_KERNELS_CPU_AMX_INT8GEMM_H

#include "kernels/cpu/amx/Requantize.h"
#include "kernels/cpu/amx/TokenTiles.h"

namespace moek::amx {
namespace {

/// Parts of a block of columns: of kA8KBlock, which share a token's scale.
constexpr int kParts = kBlockCols / int(kA8KBlock);
constexpr int kPartTiles = kBlockTiles / kParts;
static_assert(kParts * kA8KBlock == kBlockCols && kPartTiles > 0);

/// A block of columns of all tokens, as tiles.
class TokenBlock {
public:
  TokenBlock(const uint8_t *const *act, int64_t tokens, int64_t cols)
      : act_(act), tokens_(tokens), cols_(cols), split_(splitTokens(tokens)),
        stride_(tokens > 1 ? int64_t(uintptr_t(act[1]) - uintptr_t(act[0]))
                           : 0),
        strided_(haveStride(act, tokens, stride_)) {}

  const TileSplit &split() const { return split_; }
  /// Of a part of the block.
  float scale(int64_t token, int part) const { return scales_[token][part]; }

  void load(int64_t col, int64_t count) {
    col_ = col;
    for (int64_t t = 0; t < tokens_; ++t)
      for (int p = 0; p * kA8KBlock < count; ++p)
        scales_[t][p] =
            a8Row(act_[t], cols_).scale[(col + p * kA8KBlock) / kA8Block];
    // What lies behind a row's last column is multiplied with zeros.
    int64_t vectors = (count + kTileRowBytes - 1) / kTileRowBytes;
    int64_t whole =
        split_.count * split_.rows == tokens_ ? split_.count : split_.count - 1;
    for (int64_t t = strided_ ? whole * split_.rows : 0;
         t < split_.count * split_.rows; ++t)
      for (int64_t v = 0; v < vectors; ++v)
        _mm512_store_si512(
            copies_[t] + v * kTileRowBytes,
            t < tokens_ ? _mm512_loadu_si512(act_[t] + col + v * kTileRowBytes)
                        : _mm512_setzero_si512());
  }

  TileRows tile(int64_t i) const {
    int64_t first = i * split_.rows;
    if (strided_ && first + split_.rows <= tokens_)
      return {act_[first] + col_, stride_, kTileRowBytes};
    return {copies_[first], kBlockCols, kTileRowBytes};
  }

private:
  const uint8_t *const *act_;
  int64_t tokens_, cols_;
  TileSplit split_;
  int64_t stride_;
  bool strided_;
  int64_t col_ = 0;
  float scales_[kPanelTokens][kParts];
  /// Rows of the last tile are less than a tile more than there are tokens.
  alignas(64) uint8_t copies_[kPanelTokens + kTileRows][kBlockCols];
};

/// int32 sums of up to 2 x 2 tiles, of each part of a block.
using PartSums = int32_t[kParts][4][16][16];

/// Adds (or, for the first block, writes) A x B tiles of scaled sums of P
/// parts. `masks` say which rows there are.
template <int A, int B, int P>
MOE_INLINE void addSums(const PartSums &sums, const TokenBlock &x,
                        const WeightBlock *weights, int64_t firstToken,
                        int64_t tokens, bool add, const __mmask16 *masks,
                        float *out, int64_t outStride) {
  __m512 rowScale[B];
#pragma GCC unroll 2
  for (int b = 0; b < B; ++b)
    rowScale[b] = _mm512_load_ps(weights[b].scale);
#pragma GCC unroll 2
  for (int a = 0; a < A; ++a) {
    int64_t first = firstToken + a * x.split().rows;
    int64_t count =
        tokens - first < x.split().rows ? tokens - first : x.split().rows;
    for (int64_t t = 0; t < count; ++t) {
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) {
        float *to = out + (first + t) * outStride + 16 * b;
        __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 2
        for (int p = 0; p < P; ++p) {
          __m512i part = _mm512_load_si512(sums[p][2 * a + b][t]);
          __m512 scale = _mm512_set1_ps(x.scale(first + t, p));
          sum = p == 0 ? _mm512_mul_ps(_mm512_cvtepi32_ps(part), scale)
                       : _mm512_fmadd_ps(_mm512_cvtepi32_ps(part), scale, sum);
        }
        __m512 old =
            add ? _mm512_maskz_loadu_ps(masks[b], to) : _mm512_setzero_ps();
        _mm512_mask_storeu_ps(to, masks[b],
                              _mm512_fmadd_ps(sum, rowScale[b], old));
      }
    }
  }
}

/// B x 16 weight rows times all tokens, over P parts of a block of columns, the
/// last one `lastTiles` wide.
template <int B, int P>
void multiplyParts(const TokenBlock &x, const WeightBlock *weights,
                   int64_t tokens, int64_t lastTiles, bool add,
                   const __mmask16 *masks, float *out, int64_t outStride) {
  alignas(64) PartSums sums;
  auto multiply = [&]<int A>(std::integral_constant<int, A>, int64_t i) {
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) {
      TileRows rows[2], x2[2] = {x.tile(i), x.tile(A == 2 ? i + 1 : i)};
      for (TileRows &tokenRows : x2)
        tokenRows.from += p * kA8KBlock;
      for (int b = 0; b < B; ++b)
        rows[b] = {weights[b].tiles[p * kPartTiles][0], kTileRowBytes,
                   kTileBytes};
      zeroSums<A, B>();
      multiplyTiles<Int8Product, A, B>(x2, rows,
                                       p + 1 < P ? kPartTiles : lastTiles);
      storeSums<A, B>(sums[p]);
    }
    addSums<A, B, P>(sums, x, weights, i * x.split().rows, tokens, add, masks,
                     out, outStride);
  };
  int64_t i = 0;
  for (; i + 2 <= x.split().count; i += 2)
    multiply(SizeConstant<2>(), i);
  if (i < x.split().count)
    multiply(SizeConstant<1>(), i);
}

/// The same over a block of `count` columns.
template <int B>
void multiplyBlock(const TokenBlock &x, const WeightBlock *weights,
                   int64_t tokens, int64_t count, bool add,
                   const __mmask16 *masks, float *out, int64_t outStride) {
  static_assert(kParts == 2);
  int64_t tiles = (count + kTileRowBytes - 1) / kTileRowBytes;
  if (tiles > kPartTiles)
    multiplyParts<B, 2>(x, weights, tokens, tiles - kPartTiles, add, masks, out,
                        outStride);
  else
    multiplyParts<B, 1>(x, weights, tokens, tiles, add, masks, out, outStride);
}

/// At most kPanelRows rows times at most kPanelTokens tokens.
template <Format F>
void tileBlock(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t tokens, int64_t cols,
               float *out, int64_t outStride) {
  using Tile = avx512::Rows16Tile<F>;
  // About 80 KiB of stack: kernels neither allocate nor are given scratch.
  TokenBlock x(act, tokens, cols);
  WeightBlock weights[2];
  NextRows next(w, rows * wStride);
  TileScope tiles(int(x.split().rows));
  for (int64_t col = 0; col < cols; col += kBlockCols) {
    int64_t count = cols - col < kBlockCols ? cols - col : kBlockCols;
    x.load(col, count);
    for (int64_t r = 0; r < rows; r += 2 * kRows16) {
      int64_t left = rows - r;
      __mmask16 masks[2] = {
          __mmask16(left >= 16 ? 0xffff : (1 << left) - 1),
          __mmask16(left >= 32 ? 0xffff : (1 << ((left - 16) & 15)) - 1)};
      int groups = left > kRows16 ? 2 : 1;
      for (int g = 0; g < groups; ++g) {
        next.fetch(count / Tile::kCols * Tile::kBytes);
        requantizeBlock<F>(w + (r + g * kRows16) * wStride, col, count,
                           weights[g]);
      }
      if (groups == 2)
        multiplyBlock<2>(x, weights, tokens, count, col != 0, masks, out + r,
                         outStride);
      else
        multiplyBlock<1>(x, weights, tokens, count, col != 0, masks, out + r,
                         outStride);
    }
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_INT8GEMM_H
