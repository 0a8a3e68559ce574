//===- Int8Panel.h - Weights expanded to panels, many tokens ----*- C++ -*-===//
//
// 8 rows by kPanelCols columns of weights are unpacked once into L1 and
// multiplied with all tokens. In the panel, a vector holds the same four
// columns of 8 rows, so that one broadcast of four activations serves 8 rows,
// and scales are vectors over rows.
//
// Inner tile: 8 rows by up to 4 tokens. 4 sums each in int16, int32 and float,
// the weights, a broadcast and the constant of ones take 15 of 16 registers.
// With vpdpbusd there are none in int16.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_INT8PANEL_H
#define MOE_KERNELS_CPU_LANES8_INT8PANEL_H

#include "kernels/cpu/lanes8/Gguf.h"

namespace moek::MOE_ISA {
namespace {

constexpr int kTileTokens = 4;

template <class F> struct alignas(32) Panel {
  static constexpr int kSub = F::kSub;
  static constexpr int kOffsetSub = F::kOffsetSub ? F::kOffsetSub : kPanelCols;
  uint8_t codes[kPanelCols / 4][32];
  float scales[kPanelCols / kSub][8];
  float offsets[kPanelCols / kOffsetSub][8];
};

/// Transposes eight rows' numbers, one row per register, to vectors over rows
/// at `to`.
MOE_INLINE void storeTransposed(const Floats rows[8], float (*to)[8]) {
  Ints bits[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    bits[i] = asInts(rows[i]);
  transpose8x8(bits);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    Simd::store(to[i], asFloats(bits[i]));
}

/// Stores the numbers that `Get` reads from eight super-blocks, Count (8 or 16)
/// from each.
template <int Count, class Block, Lanes16 (*Get)(const Block *)>
MOE_INLINE void storeLanes(const Block *const blocks[8], float (*to)[8]) {
  Floats low[8], high[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) {
    Lanes16 lanes = Get(blocks[r]);
    low[r] = lanes.low;
    high[r] = lanes.high;
  }
  storeTransposed(low, to);
  if constexpr (Count == 16)
    storeTransposed(high, to + 8);
}

/// Expands columns [firstCol, firstCol + count) of 8 rows. Rows past the last
/// are copies of it, whose products are not stored.
template <class F>
void expand(Panel<F> &panel, const uint8_t *w, int64_t wStride, int64_t rows,
            int64_t firstCol, int64_t count, NextRows &next) {
  using Block = typename F::Block;
  const Block *blocks[8];
  for (int r = 0; r < 8; ++r)
    blocks[r] = reinterpret_cast<const Block *>(w + (r < rows ? r : rows - 1) *
                                                        wStride) +
                firstCol / F::kSpan;
  for (int64_t col = 0; col < count; col += F::kSpan) {
    next.fetch(8 * int64_t(sizeof(Block)));
#pragma GCC unroll 8
    for (int v = 0; v < F::kSpan / 32; ++v) {
      Ints codes[8];
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r)
        codes[r] = F::codes(blocks[r], v);
      transpose8x8(codes);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        store((panel.codes[col / 4 + 8 * v + i]), codes[i]);
    }
    if constexpr (F::kSpan == 256) {
      storeLanes<256 / F::kSub, Block, F::scales>(blocks,
                                                  &panel.scales[col / F::kSub]);
      if constexpr (F::kOffsetSub != 0)
        storeLanes<256 / F::kOffsetSub, Block, F::offsets>(
            blocks, &panel.offsets[col / F::kOffsetSub]);
    } else if constexpr (F::kSpan == 64) {
      for (int s = 0; s < 64 / F::kSub; ++s) {
        alignas(8) uint8_t numbers[8];
        for (int r = 0; r < 8; ++r)
          numbers[r] = blocks[r]->scaleBits(s);
        Simd::store(panel.scales[col / F::kSub + s],
                    floatScales(load64(numbers)));
      }
    } else {
      alignas(16) int16_t bits[8];
      alignas(8) uint8_t bytes[8];
      for (int r = 0; r < 8; ++r)
        if constexpr (BlockTraits<Block>::kIsExponent)
          bytes[r] = blocks[r]->d;
        else
          bits[r] = load16(blocks[r]->d);
      Floats scales;
      if constexpr (BlockTraits<Block>::kIsExponent)
        scales = exponents(unsigned32(load64(bytes)));
      else
        scales = halves(load128(bits));
      Simd::store(panel.scales[col / 32], scales);
      if constexpr (F::kOffsetSub != 0) {
        for (int r = 0; r < 8; ++r)
          bits[r] = load16(blocks[r]->m);
        Simd::store(panel.offsets[col / 32], halves(load128(bits)));
      }
    }
    for (int r = 0; r < 8; ++r)
      ++blocks[r];
  }
}

/// Computes the products of sub-block i, 8 rows by T tokens, as int32.
template <class F, int T>
MOE_INLINE void subBlockDots(const Panel<F> &panel, const int8_t *const q[T],
                             int64_t i, Ints dots[T]) {
  constexpr int kSteps = F::kSub / 4;
  if constexpr (kHasDots) {
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s) {
      Ints codes = load256(panel.codes[i * kSteps + s]);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        dots[t] =
            dot4(dots[t], codes, set32(load32(q[t] + i * F::kSub + 4 * s)));
    }
  } else {
    // The number of vpmaddubsw results that add up in int16 without overflow.
    constexpr int kFit = F::kMaxCode ? 32767 / (2 * 127 * F::kMaxCode) : 1;
    constexpr int kGroup = kFit < kSteps ? kFit : kSteps;
    Ints sums[T];
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s) {
      Ints codes = load256((panel.codes[i * kSteps + s]));
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        Ints x = set32(load32(q[t] + i * F::kSub + 4 * s));
        Ints products = products16<F>(codes, x);
        sums[t] = s % kGroup == 0 ? products : add16(sums[t], products);
        if ((s + 1) % kGroup == 0 || s + 1 == kSteps)
          dots[t] = add32(dots[t], pairSums(sums[t]));
      }
    }
  }
}

/// Multiplies 8 rows with T tokens over `count` columns of a panel.
/// `firstToken` is an index into `table`; `mask` is set for the rows that
/// exist.
template <class F, int T>
void panelTile(const Panel<F> &panel, const TokenTable<F> &table,
               int64_t firstToken, const uint8_t *const *act, int64_t firstCol,
               int64_t count, Mask mask, float *out, int64_t outStride) {
  const int8_t *q[T];
  Floats sums[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    q[t] = reinterpret_cast<const int8_t *>(act[t]) + firstCol;
    sums[t] = Simd::zero();
  }
  const auto *scale = &table.scale[firstToken];
  const auto *start = &table.start[firstToken];
  const auto *offset = &table.offset[firstToken];
  for (int64_t i = 0; i < count / F::kSub; ++i) {
    Ints dots[T];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      dots[t] = set32(kDotStart);
      if constexpr (F::kZero != 0)
        dots[t] = set32(start[t][i]);
    }
    subBlockDots<F, T>(panel, q, i, dots);
    Floats rowScale = Simd::load(panel.scales[i]);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      sums[t] = Simd::fma(
          floats(dots[t]),
          Simd::mul(rowScale, Simd::set(scale[t][i * F::kSub / 32])), sums[t]);
    if constexpr (F::kOffsetSub != 0) {
      // There are at least as many scales as offsets.
      static_assert(F::kOffsetSub == F::kSub);
      Floats rowOffset = Simd::load(panel.offsets[i]);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sums[t] = Simd::fma(rowOffset, Simd::set(offset[t][i]), sums[t]);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    float *to = out + t * outStride;
    if (firstCol != 0)
      sums[t] = Simd::add(sums[t], loadMasked(to, mask));
    storeMasked(to, mask, sums[t]);
  }
}

/// Multiplies at most kPanelRows rows with at most kPanelTokens tokens.
template <class F>
void panelBlock(const uint8_t *w, int64_t wStride, int64_t rows,
                const uint8_t *const *act, int64_t tokens, int64_t cols,
                float *out, int64_t outStride) {
  // About 100 KiB on the stack, because gemms neither allocate nor get scratch.
  Panel<F> panel;
  TokenTable<F> table;
  NextRows next(w, rows * wStride);
  for (int64_t col = 0; col < cols; col += kPanelCols) {
    int64_t count = cols - col < kPanelCols ? cols - col : kPanelCols;
    fillTable(table, act, tokens, cols, col, count, kDotStart);
    for (int64_t r = 0; r < rows; r += 8) {
      Mask mask = firstLanes(rows - r);
      expand(panel, w + r * wStride, wStride, rows - r, col, count, next);
      forTokenTiles<kTileTokens>(tokens, [&](auto size, int64_t t) {
        panelTile<F, size>(panel, table, t, act + t, col, count, mask,
                           out + t * outStride + r, outStride);
      });
    }
  }
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_INT8PANEL_H
