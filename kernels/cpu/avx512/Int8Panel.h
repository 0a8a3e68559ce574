//===- Int8Panel.h - Weights expanded to panels, many tokens ----*- C++ -*-===//
//
// 32 rows by kPanelCols columns of weights are unpacked once into L1/L2 and
// multiplied with all tokens. In the panel, a vector holds the same four
// columns of 16 rows, so that one broadcast of four activations serves 16 rows,
// sums of a sub-block need no reduction, and scales are vectors over rows.
//
// Inner tile: 2 x 16 rows by up to 6 tokens. 12 int32 and 12 float sums, two
// weight vectors and one broadcast take 27 of 32 registers. For a sub-block of
// 32 columns a tile executes 96 vpdpbusd and 24 multiplications that compete
// with them for the same two ports: at most 80 % of peak (73 % with an offset,
// 67 % with a scale per 16 columns).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_INT8PANEL_H
#define MOE_KERNELS_CPU_AVX512_INT8PANEL_H

#include "kernels/cpu/avx512/Gguf.h"

namespace moek::avx512 {
namespace {

constexpr int kPanelGroups = 2; ///< Groups of 16 rows in a panel.
constexpr int kTileTokens = 6;

template <class F> struct alignas(64) Panel {
  static constexpr int kSub = F::kSub;
  static constexpr int kOffsetSub = F::kOffsetSub ? F::kOffsetSub : kPanelCols;
  uint8_t codes[kPanelCols / 4][kPanelGroups][64];
  float scales[kPanelCols / kSub][kPanelGroups][16];
  float offsets[kPanelCols / kOffsetSub][kPanelGroups][16];
};

/// Transposes rows of scales, one register each, to vectors over 16 rows.
MOE_INLINE void transposeScales(__m512 rows[16]) {
  __m512i bits[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    bits[i] = _mm512_castps_si512(rows[i]);
  transpose16x16(bits);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    rows[i] = _mm512_castsi512_ps(bits[i]);
}

/// Writes 64 columns of 16 rows from `codes` to column `col`.
template <class F>
MOE_INLINE void storeCodes(Panel<F> &panel, int group, int64_t col,
                           __m512i codes[16], int vectors) {
  transpose16x16(codes);
  for (int i = 0; i < vectors; ++i)
    _mm512_store_si512(panel.codes[col / 4 + i][group], codes[i]);
}

/// Super-blocks: expands columns [0, 256) of the 16 blocks to column `col`.
template <class F>
void expand256(Panel<F> &panel, int group, int64_t col,
               const typename F::Block *const blocks[16]) {
  alignas(64) uint8_t unpacked[16][256];
  alignas(64) float scaleRows[16][16];
  alignas(64) float offsetRows[16][16];
  for (int r = 0; r < 16; ++r) {
    __m512i q[4];
    F::codes(blocks[r], q);
    for (int v = 0; v < 4; ++v)
      _mm512_store_si512(unpacked[r] + 64 * v, q[v]);
    _mm512_store_ps(scaleRows[r], F::scales(blocks[r]));
    if constexpr (F::kOffsetSub == 16)
      _mm512_store_ps(offsetRows[r], F::offsets(blocks[r]));
  }
  for (int v = 0; v < 4; ++v) {
    __m512i codes[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r)
      codes[r] = _mm512_load_si512(unpacked[r] + 64 * v);
    storeCodes(panel, group, col + 64 * v, codes, 16);
  }
  __m512 scales[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r)
    scales[r] = _mm512_load_ps(scaleRows[r]);
  transposeScales(scales);
  constexpr int kScales = 256 / F::kSub;
  for (int i = 0; i < kScales; ++i)
    _mm512_store_ps(panel.scales[col / F::kSub + i][group], scales[i]);
  if constexpr (F::kOffsetSub == 32)
    for (int i = 0; i < 8; ++i)
      _mm512_store_ps(panel.offsets[col / 32 + i][group], scales[8 + i]);
  if constexpr (F::kOffsetSub == 16) {
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r)
      scales[r] = _mm512_load_ps(offsetRows[r]);
    transposeScales(scales);
    for (int i = 0; i < 16; ++i)
      _mm512_store_ps(panel.offsets[col / 16 + i][group], scales[i]);
  }
}

/// Blocks of 32 or 64: expands two or one of them (one of 32 if Half) per row.
template <class F, bool Half>
void expand64(Panel<F> &panel, int group, int64_t col,
              const typename F::Block *const blocks[16]) {
  constexpr int kBlocks = Half ? 1 : 2;
  __m512i codes[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r)
    codes[r] = F::template codes<Half>(blocks[r]);
  storeCodes(panel, group, col, codes, kBlocks * 8);
  if constexpr (BlockTraits<typename F::Block>::kIsFloats) {
    for (int s = 0; s < 64 / F::kSub; ++s) {
      alignas(16) uint8_t numbers[16];
      for (int r = 0; r < 16; ++r)
        numbers[r] = blocks[r]->scaleBits(s);
      _mm512_store_ps(panel.scales[col / F::kSub + s][group],
                      floatScales(load128(numbers)));
    }
  } else {
    for (int b = 0; b < kBlocks; ++b) {
      alignas(32) int16_t bits[16];
      alignas(16) uint8_t bytes[16];
      for (int r = 0; r < 16; ++r)
        if constexpr (BlockTraits<typename F::Block>::kIsExponent)
          bytes[r] = blocks[r][b].d;
        else
          bits[r] = load16(blocks[r][b].d);
      __m512 scales;
      if constexpr (BlockTraits<typename F::Block>::kIsExponent)
        scales = exponents(_mm512_cvtepu8_epi32(load128(bytes)));
      else
        scales = _mm512_cvtph_ps(load256(bits));
      _mm512_store_ps(panel.scales[col / 32 + b][group], scales);
      if constexpr (F::kOffsetSub != 0) {
        for (int r = 0; r < 16; ++r)
          bits[r] = load16(blocks[r][b].m);
        _mm512_store_ps(panel.offsets[col / 32 + b][group],
                        _mm512_cvtph_ps(load256(bits)));
      }
    }
  }
}

/// Expands columns [firstCol, firstCol + count) of 16 rows. Rows past the last
/// are copies of it, whose products are not stored.
template <class F>
void expandGroup(Panel<F> &panel, int group, const uint8_t *w, int64_t wStride,
                 int64_t rows, int64_t firstCol, int64_t count,
                 NextRows &next) {
  using Block = typename F::Block;
  constexpr int64_t kSpanBlocks = F::kSpan / Block::kElements;
  const Block *blocks[16];
  for (int r = 0; r < 16; ++r)
    blocks[r] = reinterpret_cast<const Block *>(w + (r < rows ? r : rows - 1) *
                                                        wStride) +
                firstCol / Block::kElements;
  int64_t col = 0;
  for (; col + F::kSpan <= count; col += F::kSpan) {
    next.fetch(16 * kSpanBlocks * int64_t(sizeof(Block)));
    if constexpr (F::kSpan == 256)
      expand256(panel, group, col, blocks);
    else
      expand64<F, false>(panel, group, col, blocks);
    for (int r = 0; r < 16; ++r)
      blocks[r] += kSpanBlocks;
  }
  if constexpr (F::kSpan == 2 * Block::kElements)
    if (col < count)
      expand64<F, true>(panel, group, col, blocks);
}

/// Multiplies G x 16 rows with T tokens over `count` columns of a panel. `act`
/// points at the panel's first column; `firstToken` is an index into `table`.
template <class F, int G, int T>
void panelTile(const Panel<F> &panel, const TokenTable<F> &table,
               int64_t firstToken, const uint8_t *const *act, int64_t firstCol,
               int64_t count, const __mmask16 *masks, float *out,
               int64_t outStride) {
  // Number of vpdpbusd for a sub-block and a sum.
  constexpr int kSteps = F::kSub / 4;
  const int8_t *q[T];
  __m512 sums[G][T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    q[t] = reinterpret_cast<const int8_t *>(act[t]) + firstCol;
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g)
      sums[g][t] = _mm512_setzero_ps();
  }
  const auto *scale = &table.scale[firstToken];
  const auto *start = &table.start[firstToken];
  const auto *offset = &table.offset[firstToken];
  int64_t subs = count / F::kSub;
  for (int64_t i = 0; i < subs; ++i) {
    __m512i dots[G][T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      __m512i first = _mm512_setzero_si512();
      if constexpr (F::kZero != 0)
        first = _mm512_set1_epi32(start[t][i]);
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g)
        dots[g][t] = first;
    }
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s) {
      __m512i codes[G];
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g)
        codes[g] = _mm512_load_si512(panel.codes[i * kSteps + s][g]);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        __m512i x = _mm512_set1_epi32(load32(q[t] + i * F::kSub + 4 * s));
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g)
          dots[g][t] = _mm512_dpbusd_epi32(dots[g][t], codes[g], x);
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      __m512 rowScale = _mm512_load_ps(panel.scales[i][g]);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        sums[g][t] = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(dots[g][t]),
            _mm512_mul_ps(rowScale, _mm512_set1_ps(scale[t][i * F::kSub / 32])),
            sums[g][t]);
      if constexpr (F::kOffsetSub != 0) {
        constexpr int kOffsets = F::kSub / F::kOffsetSub;
#pragma GCC unroll 2
        for (int j = 0; j < kOffsets; ++j) {
          __m512 rowOffset = _mm512_load_ps(panel.offsets[i * kOffsets + j][g]);
#pragma GCC unroll 8
          for (int t = 0; t < T; ++t)
            sums[g][t] = _mm512_fmadd_ps(
                rowOffset, _mm512_set1_ps(offset[t][i * kOffsets + j]),
                sums[g][t]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      float *to = out + t * outStride + 16 * g;
      __m512 sum = sums[g][t];
      if (firstCol != 0)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[g], to));
      _mm512_mask_storeu_ps(to, masks[g], sum);
    }
}

/// Multiplies a panel with all tokens of a table.
template <class F, int G>
void panelTokens(const Panel<F> &panel, const TokenTable<F> &table,
                 const uint8_t *const *act, int64_t tokens, int64_t firstCol,
                 int64_t count, const __mmask16 *masks, float *out,
                 int64_t outStride) {
  forTokenTiles<kTileTokens>(tokens, [&](auto size, int64_t t) {
    panelTile<F, G, size>(panel, table, t, act + t, firstCol, count, masks,
                          out + t * outStride, outStride);
  });
}

/// Reads rows as in the file for panelBlock().
template <class F> struct GgufSource {
  using Traits = F;
  static void expand(Panel<F> &panel, int group, const uint8_t *w,
                     int64_t wStride, int64_t rows, int64_t firstCol,
                     int64_t count, NextRows &next) {
    expandGroup(panel, group, w, wStride, rows, firstCol, count, next);
  }
};

/// Multiplies at most kPanelRows rows with at most kPanelTokens tokens.
/// Source::expand fills a group of a panel of Source::Traits with up to 16
/// rows.
template <class Source>
void panelBlock(const uint8_t *w, int64_t wStride, int64_t rows,
                const uint8_t *const *act, int64_t tokens, int64_t cols,
                float *out, int64_t outStride) {
  using F = typename Source::Traits;
  // About 120 KiB on the stack, because gemms neither allocate nor get scratch.
  Panel<F> panel;
  TokenTable<F> table;
  NextRows next(w, rows * wStride);
  for (int64_t col = 0; col < cols; col += kPanelCols) {
    int64_t count = cols - col < kPanelCols ? cols - col : kPanelCols;
    fillTable(table, act, tokens, cols, col, count);
    for (int64_t r = 0; r < rows; r += 16 * kPanelGroups) {
      int64_t left = rows - r;
      const uint8_t *from = w + r * wStride;
      __mmask16 masks[2] = {
          __mmask16(left >= 16 ? 0xffff : (1 << left) - 1),
          __mmask16(left >= 32 ? 0xffff : (1 << ((left - 16) & 15)) - 1)};
      Source::expand(panel, 0, from, wStride, left, col, count, next);
      if (left <= 16) {
        panelTokens<F, 1>(panel, table, act, tokens, col, count, masks, out + r,
                          outStride);
        continue;
      }
      Source::expand(panel, 1, from + 16 * wStride, wStride, left - 16, col,
                     count, next);
      panelTokens<F, 2>(panel, table, act, tokens, col, count, masks, out + r,
                        outStride);
    }
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_INT8PANEL_H
