//===- Int8Gemm.h - AMX gemm of interleaved rows and A8K tokens -*- C++ -*-===//
//
// Works on blocks of kBlockCols columns: 64 weight rows are converted once to
// int8 tiles, 16 KiB that stay in L1, and multiplied with all tokens, 32 at a
// time. A block's int32 sums, one for each part with its own token scale, are
// scaled and added to the output in memory. Per 32 x 32 outputs these are 64
// vectors of nine instructions, of which three store, beside 16 products of 16
// cycles, which the out-of-order core overlaps. (With four parts it would be
// five stores: more cycles than the products take.)
//
// Measured on a fourth-generation Xeon: a product with its loads takes 16
// cycles, in this loop 67. Two alternatives were tried. Sums that leave the
// tiles just before these are reused, and are scaled beside the next block's
// products, take 35 to 40 cycles in a loop of nothing else (the load ports are
// full: 256 lines of tiles, 288 of sums, scales and output), but no less than
// this one in a kernel. With one scale of a token for 256 columns it takes 12
// to 17 % less time, and has 1.3 to 1.6 times the mean divergence of a trained
// model's logits. It was not worth that.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_INT8GEMM_H
#define MOE_KERNELS_CPU_AMX_INT8GEMM_H

#include "kernels/cpu/amx/Requantize.h"
#include "kernels/cpu/amx/TokenTiles.h"

namespace moek::amx {
namespace {

/// Parts of a block of columns. A part is kA8KBlock columns, which share a
/// token's scale.
constexpr int kParts = kBlockCols / int(kA8KBlock);
constexpr int kPartTiles = kBlockTiles / kParts;
static_assert(kParts * kA8KBlock == kBlockCols && kPartTiles > 0);

/// A block of columns of all tokens, provided as tiles, up to two at a time.
class TokenBlock {
public:
  TokenBlock(const uint8_t *const *act, int64_t tokens, int64_t cols)
      : act_(act), tokens_(tokens), cols_(cols), split_(splitTokens(tokens)),
        stride_(tokens > 1 ? int64_t(uintptr_t(act[1]) - uintptr_t(act[0]))
                           : 0),
        strided_(haveStride(act, tokens, stride_)) {}

  const TileSplit &split() const { return split_; }
  /// Scale of a part of the block.
  float scale(int64_t token, int part) const { return scales_[token][part]; }

  /// Moves to columns [col, col + count).
  void enter(int64_t col, int64_t count) {
    col_ = col;
    // Values past a row's last column are multiplied with zeros.
    vectors_ = (count + kTileRowBytes - 1) / kTileRowBytes;
    for (int64_t t = 0; t < tokens_; ++t)
      for (int p = 0; p * kA8KBlock < count; ++p)
        scales_[t][p] =
            a8Row(act_[t], cols_).scale[(col + p * kA8KBlock) / kA8Block];
  }

  /// Returns tile `i`, valid until tile i + 2 is requested.
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
  int64_t tokens_, cols_;
  TileSplit split_;
  int64_t stride_;
  bool strided_;
  int64_t col_ = 0, vectors_ = 0;
  float scales_[kPanelTokens][kParts];
  alignas(64) uint8_t copies_[2][kTileRows][kBlockCols];
};

/// int32 sums of up to 2 x 2 tiles, for each part of a block.
using PartSums = int32_t[kParts][4][16][16];

/// Adds the scaled sums of P parts to A x B tiles of the result, or writes them
/// for the first block. `masks` say which rows exist.
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

/// A tiles of tokens, from number `i` on.
template <int A> struct TokenTiles {
  int64_t i;
  TileRows rows[2];

  TokenTiles(TokenBlock &x, int64_t first)
      : i(first), rows{x.tile(first), A == 2 ? x.tile(first + 1) : TileRows()} {
  }
};

/// Multiplies them with B x 16 weight rows over P parts of a block of columns,
/// the last part with `lastTiles` tiles.
template <int A, int B, int P>
void multiplyParts(const TokenTiles<A> &tiles, const TokenBlock &x,
                   const WeightBlock *weights, int64_t tokens,
                   int64_t lastTiles, bool add, const __mmask16 *masks,
                   float *out, int64_t outStride) {
  alignas(64) PartSums sums;
#pragma GCC unroll 2
  for (int p = 0; p < P; ++p) {
    TileRows rows[2], part[2] = {tiles.rows[0], tiles.rows[1]};
    for (int a = 0; a < A; ++a)
      part[a].from += p * kA8KBlock;
    for (int b = 0; b < B; ++b)
      rows[b] = {weights[b].tiles[p * kPartTiles][0], kTileRowBytes,
                 kTileBytes};
    zeroSums<A, B>();
    multiplyTiles<Int8Product, A, B>(part, rows,
                                     p + 1 < P ? kPartTiles : lastTiles);
    storeSums<A, B>(sums[p]);
  }
  addSums<A, B, P>(sums, x, weights, tiles.i * x.split().rows, tokens, add,
                   masks, out, outStride);
}

/// Multiplies them over a block of `count` columns.
template <int A, int B>
void multiplyBlock(const TokenTiles<A> &tiles, const TokenBlock &x,
                   const WeightBlock *weights, int64_t tokens, int64_t count,
                   bool add, const __mmask16 *masks, float *out,
                   int64_t outStride) {
  static_assert(kParts == 2);
  int64_t width = (count + kTileRowBytes - 1) / kTileRowBytes;
  if (width > kPartTiles)
    multiplyParts<A, B, 2>(tiles, x, weights, tokens, width - kPartTiles, add,
                           masks, out, outStride);
  else
    multiplyParts<A, B, 1>(tiles, x, weights, tokens, width, add, masks, out,
                           outStride);
}

/// Multiplies at most kPanelRows rows with at most kPanelTokens tokens. Uses 36
/// KiB of stack, of which 33 stay in L1.
template <Format F>
void tileBlock(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t tokens, int64_t cols,
               float *out, int64_t outStride) {
  using Tile = avx512::Rows16Tile<F>;
  TokenBlock x(act, tokens, cols);
  WeightBlock weights[kPanelRows / kRows16];
  NextRows next(w, rows * wStride);
  TileScope scope(int(x.split().rows));
  for (int64_t col = 0; col < cols; col += kBlockCols) {
    int64_t count = cols - col < kBlockCols ? cols - col : kBlockCols;
    x.enter(col, count);
    for (int64_t r = 0; r < rows; r += kRows16) {
      next.fetch(count / Tile::kCols * Tile::kBytes);
      requantizeBlock<F>(w + r * wStride, col, count, weights[r / kRows16]);
    }
    forTilePairs(x.split().count, [&]<int A>(SizeConstant<A>, int64_t i) {
      TokenTiles<A> tiles(x, i);
      forRowPairs(
          rows, [&]<int B>(SizeConstant<B>, int64_t r, const __mmask16 *masks) {
            multiplyBlock<A, B>(tiles, x, weights + r / kRows16, tokens, count,
                                col != 0, masks, out + r, outStride);
          });
    });
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_INT8GEMM_H
