//===- Bf16Gemm.h - AMX gemm of BF16 weights and F32 tokens -----*- C++ -*-===//
//
// Interleaved rows of BF16 (kernels/quant/Rows16.h) are weight tiles as they
// are in memory. Tokens are floats and are split into two BF16 numbers each, x
// = high + low with an error of 2^-16 |x|, which are multiplied one after the
// other. With `high` alone, an error of 2^-8, a BF16 model's logits would be
// off by several 0.1 %. So half of the tile products refine the others.
//
// Splitting takes some 12 instructions for 16 floats. Per token and 64 rows by
// 64 columns that is 24 cycles, beside 16 for the tile products; multiplying as
// floats takes 128.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_BF16GEMM_H
#define MOE_KERNELS_CPU_AMX_BF16GEMM_H

#include "kernels/cpu/amx/TokenTiles.h"
#include "kernels/quant/Rows16.h"

namespace moek::amx {
namespace {

/// Columns of a tile, whose rows have 64 bytes: 32 BF16 values.
constexpr int64_t kBf16StepCols = 32;
constexpr int64_t kBf16BlockCols = 128;

/// Rounds to nearest, ties to even.
MOE_INLINE __m256i roundToBf16(__m512 x) {
  __m512i bits = _mm512_castps_si512(x);
  __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff)),
      16);
  // The addition may turn a NaN into infinity or zero.
  rounded =
      _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                            _mm512_set1_epi32(0x7fc0));
  return _mm512_cvtepi32_epi16(rounded);
}

MOE_INLINE __m512 widenBf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/// A block of columns of up to two tiles of tokens, as high halves and low
/// halves.
class alignas(64) SplitTokens {
public:
  SplitTokens(const uint8_t *const *act, int64_t tokens)
      : act_(act), tokens_(tokens), split_(splitTokens(tokens)) {}

  const TileSplit &split() const { return split_; }

  /// Splits tile `i`. It remains valid until tile i + 2 is loaded.
  void load(int64_t i, int64_t col, int64_t count) {
    for (int64_t r = 0; r < split_.rows; ++r) {
      int64_t t = i * split_.rows + r;
      const float *x =
          reinterpret_cast<const float *>(act_[t < tokens_ ? t : tokens_ - 1]) +
          col;
      for (int64_t c = 0; c < count || c % kBf16StepCols != 0; c += 16) {
        int64_t left = t < tokens_ && c < count ? count - c : 0;
        __mmask16 mask = __mmask16(left >= 16 ? 0xffff : (1 << left) - 1);
        __m512 value = _mm512_maskz_loadu_ps(mask, x + c);
        __m256i high = roundToBf16(value);
        put(parts_[0][i % 2][r] + c, high);
        put(parts_[1][i % 2][r] + c,
            roundToBf16(_mm512_sub_ps(value, widenBf16(high))));
      }
    }
  }

  TileRows tile(int part, int64_t i) const {
    return {reinterpret_cast<const uint8_t *>(parts_[part][i % 2]),
            kBf16BlockCols * 2, kTileRowBytes};
  }

private:
  static void put(uint16_t *to, __m256i values) {
    _mm256_store_si256(reinterpret_cast<__m256i *>(to), values);
  }

  const uint8_t *const *act_;
  int64_t tokens_;
  TileSplit split_;
  alignas(64) uint16_t parts_[2][2][kTileRows][kBf16BlockCols];
};

/// Writes A x B tiles of sums to the output, or adds them to it.
template <int A, int B>
MOE_INLINE void addFloatSums(const float (*sums)[16][16], int64_t firstToken,
                             int64_t tileTokens, int64_t tokens, bool add,
                             const __mmask16 *masks, float *out,
                             int64_t outStride) {
  for (int a = 0; a < A; ++a)
    for (int64_t t = 0; t < tileTokens; ++t) {
      int64_t token = firstToken + a * tileTokens + t;
      if (token >= tokens)
        return;
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) {
        float *to = out + token * outStride + 16 * b;
        __m512 sum = _mm512_load_ps(sums[2 * a + b][t]);
        if (add)
          sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[b], to));
        _mm512_mask_storeu_ps(to, masks[b], sum);
      }
    }
}

/// Multiplies A tiles of tokens from number `i` on with B x 16 weight rows,
/// over one block of columns.
template <int A, int B>
void multiplySplit(const SplitTokens &x, int64_t i, const TileRows *weights,
                   int64_t tokens, int64_t count, bool add,
                   const __mmask16 *masks, float *out, int64_t outStride) {
  alignas(64) float sums[4][16][16];
  int64_t steps = (count + kBf16StepCols - 1) / kBf16StepCols;
  zeroSums<A, B>();
  for (int part = 0; part < 2; ++part) {
    TileRows rows[2] = {x.tile(part, i), x.tile(part, A == 2 ? i + 1 : i)};
    multiplyTiles<Bf16Product, A, B>(rows, weights, steps);
  }
  storeSums<A, B>(sums);
  addFloatSums<A, B>(sums, i * x.split().rows, x.split().rows, tokens, add,
                     masks, out, outStride);
}

/// Multiplies at most kPanelRows rows with at most kPanelTokens tokens. Uses 52
/// KiB of stack, 32 of them for a last block of columns.
MOE_INLINE void bf16TileBlock(const uint8_t *w, int64_t wStride, int64_t rows,
                              const uint8_t *const *act, int64_t tokens,
                              int64_t cols, float *out, int64_t outStride) {
  constexpr int64_t kGroups = kPanelRows / kRows16;
  SplitTokens x(act, tokens);
  // Weights of a last block with fewer columns, filled up with zeros.
  alignas(64) uint8_t filled[kGroups][kBf16BlockCols / 2][kTileRowBytes];
  NextRows next(w, rows * wStride);
  TileScope scope(int(x.split().rows));
  for (int64_t col = 0; col < cols; col += kBf16BlockCols) {
    int64_t count = cols - col < kBf16BlockCols ? cols - col : kBf16BlockCols;
    TileRows weights[kGroups];
    for (int64_t r = 0; r < rows; r += kRows16) {
      int64_t g = r / kRows16;
      const uint8_t *from = w + r * wStride + col / 2 * kTileRowBytes;
      next.fetch(count / 2 * kTileRowBytes);
      if (count % kBf16StepCols != 0) {
        std::memset(filled[g], 0, sizeof(filled[g]));
        std::memcpy(filled[g], from, size_t(count / 2 * kTileRowBytes));
        from = filled[g][0];
      }
      weights[g] = {from, kTileRowBytes, kTileBytes};
    }
    forTilePairs(x.split().count, [&]<int A>(SizeConstant<A>, int64_t i) {
      for (int64_t a = i; a < i + A; ++a)
        x.load(a, col, count);
      forRowPairs(
          rows, [&]<int B>(SizeConstant<B>, int64_t r, const __mmask16 *masks) {
            multiplySplit<A, B>(x, i, weights + r / kRows16, tokens, count,
                                col != 0, masks, out + r, outStride);
          });
    });
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_BF16GEMM_H
