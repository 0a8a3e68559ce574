//===- Rows16Panel.h - Tiles expanded to panels, many tokens ----*- C++ -*-===//
//
// 16 rows by kPanelCols columns of codes and scales are unpacked once into L1
// and multiplied with all tokens. Sums are added in the order of Rows16Dot.h,
// so that a token's result has the same bits beside any number of others: a
// prompt evaluates what decode would.
//
// Inner tile: 16 rows by up to 6 tokens. A group of four columns costs a
// vpmaddubsw and a 16-bit addition per eight rows and token. The 12 sums, two
// code vectors, a broadcast and a product fill the 16 registers; float sums
// stay in memory. Six tokens take 8 loads for 12 products where four take 6 for
// 8: 4 % of time with Q4_K, 6 % with Q6_K on Zen 3. Signed codes take four
// instructions instead of those two and two more registers, and formats with a
// float scale per 16 columns keep two chains of sums: 5 tokens are 4 % faster
// than 4, and 6 spill.
//
// With kHasDots it is one instruction, and the 12 sums of 6 tokens hide a
// latency of 5 cycles where two start in each.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_ROWS16PANEL_H
#define MOE_KERNELS_CPU_LANES8_ROWS16PANEL_H

#include "kernels/cpu/Rows16Gemm.h"
#include "kernels/cpu/lanes8/Rows16Tile.h"

namespace moek::MOE_ISA {
namespace {

template <Format F>
constexpr int kRows16TileTokens = kHasDots || (Rows16Tile<F>::kSuper &&
                                               !Rows16Tile<F>::kSigned)
                                      ? 6
                                      : 5;

template <Format F> struct alignas(64) Rows16Panel {
  using Tile = Rows16Tile<F>;
  static constexpr int kScaleSub = Tile::kHasNumbers ? Tile::kSub : kPanelCols;
  static constexpr int kOffsetSub = Tile::kOffsetSub == 32 ? 32 : kPanelCols;
  static constexpr bool kHasPairs = Tile::kOffsetSub == 16;
  uint8_t codes[kPanelCols / 4][2][32];
  /// Integer scales; the bits of floats if the format's scales are floats
  /// (ScaleCode::Floats) or the set has dot products (kHasDots).
  Ints scales[kPanelCols / kScaleSub][2];
  Floats d[kPanelCols / Tile::kCols][2];
  Floats offsets[kPanelCols / kOffsetSub][2];
  /// With minima per 16 columns, instead of `offsets`: their factors, and pairs
  /// of them for 32 columns.
  Floats dMin[kHasPairs ? kPanelCols / Tile::kCols : 1][2];
  Ints minima[kHasPairs ? kPanelCols / 32 : 1][2];
};

/// What tokens contribute; with minima per 16 columns the pairs of 16-bit sums
/// of 32 columns instead of TokenTable::offset.
template <Format F> struct PanelTable : TokenTable<Rows16Tile<F>> {
  int32_t pairs[Rows16Tile<F>::kOffsetSub == 16 ? kPanelTokens : 1]
               [kPanelCols / 32];
};

/// Expands a tile to columns [col, col + kCols).
template <Format F>
MOE_INLINE void expandTile(Rows16Panel<F> &panel, int64_t col,
                           const uint8_t *tile) {
  using Tile = Rows16Tile<F>;
  constexpr int kSubs = 32 / Tile::kSub;
  typename Tile::Integers integers;
  if constexpr (Tile::kSuper)
    Tile::unpack(tile, integers);
  for (int half = 0; half < 2; ++half) {
    if constexpr (!Tile::kIsFloats)
      panel.d[col / Tile::kCols][half] = Tile::factor(tile, 0, half);
    if constexpr (Tile::kOffsetSub == 16)
      panel.dMin[col / Tile::kCols][half] = Tile::factor(tile, 1, half);
    for (int s = 0; s < Tile::kCols / 32; ++s) {
      int64_t block = col / 32 + s;
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g)
        if constexpr (!kHasMatrices)
          store(panel.codes[8 * block + g][half], Tile::code(tile, s, half, g));
        else if (g % 2 == 0)
          storePair(panel.codes[8 * block + g][half],
                    panel.codes[8 * block + g + 1][half],
                    Tile::code(tile, s, half, g),
                    Tile::code(tile, s, half, g + 1));
#pragma GCC unroll 2
      for (int i = 0; i < kSubs; ++i)
        if constexpr (Tile::kSuper) {
          Ints scale = Tile::scale(tile, integers, s, i, half);
          panel.scales[kSubs * block + i][half] =
              kHasDots ? asInts(Tile::floatsOf(scale)) : scale;
        } else if constexpr (Tile::kIsFloats)
          panel.scales[kSubs * block + i][half] =
              asInts(Tile::floatScale(tile, kSubs * s + i, half));
      if constexpr (Tile::kOffsetSub == 16)
        panel.minima[block][half] = Tile::pairMinima(tile, s, half);
      if constexpr (Tile::kOffsetSub == 32) {
        Floats offset = Tile::factor(tile, 1, half);
        if constexpr (Tile::kSuper)
          offset = Simd::mul(offset, Tile::minimum(tile, integers, s, 0, half));
        panel.offsets[block][half] = offset;
      }
    }
  }
}

/// With kHasMatrices: multiplies columns kSub i ... of the panel with T tokens.
template <Format F, int T>
MOE_INLINE void panelMatrices(const Rows16Panel<F> &panel, int64_t i,
                              const int8_t *const q[T],
                              const TokenTable<Rows16Tile<F>> &table,
                              int64_t firstToken, Ints dots[T][2]) {
  using Tile = Rows16Tile<F>;
  int32_t starts[T] = {};
  const int8_t *x[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    x[t] = q[t] + Tile::kSub * i;
    if constexpr (Tile::kZero != 0)
      starts[t] = table.start[firstToken + t][i];
  }
  matrixDots<Tile::kSub, T>(panel.codes[Tile::kSub / 4 * i][0], x, starts,
                            dots);
}

/// With kHasDots: multiplies the same columns with dot products.
template <Format F, int T>
MOE_INLINE void
panelSubDots(const Rows16Panel<F> &panel, int64_t i, const int8_t *const q[T],
             const PanelTable<F> &table, int64_t firstToken, Ints dots[T][2]) {
  using Tile = Rows16Tile<F>;
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    dots[t][0] = set32(kDotStart);
    if constexpr (Tile::kZero != 0)
      dots[t][0] = set32(table.start[firstToken + t][i]);
    dots[t][1] = dots[t][0];
  }
#pragma GCC unroll 8
  for (int g = 0; g < Tile::kSub / 4; ++g) {
    const auto &codes = panel.codes[Tile::kSub / 4 * i + g];
    Ints low = load256(codes[0]), high = load256(codes[1]);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      Ints x = set32(load32(q[t] + Tile::kSub * i + 4 * g));
      dots[t][0] = dot4(dots[t][0], low, x);
      dots[t][1] = dot4(dots[t][1], high, x);
    }
  }
}

/// Multiplies 32 columns (`block` of the panel) with T tokens; of kSums sums
/// this is number `part`. Integer scales are included.
template <Format F, int T>
MOE_INLINE void panelDots(const Rows16Panel<F> &panel, int64_t block, int part,
                          const int8_t *const q[T], const PanelTable<F> &table,
                          int64_t firstToken, Floats to[T][2]) {
  using Tile = Rows16Tile<F>;
  if constexpr (kHasDots) {
    constexpr int kSubs = 32 / Tile::kSub, kEach = kSubs / Tile::kSums;
#pragma GCC unroll 2
    for (int i = 0; i < kEach; ++i) {
      int64_t at = kSubs * block + kEach * part + i;
      Ints dots[T][2];
      if constexpr (kHasMatrices)
        panelMatrices<F, T>(panel, at, q, table, firstToken, dots);
      else
        panelSubDots<F, T>(panel, at, q, table, firstToken, dots);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          Floats dot = floats(dots[t][h]);
          if constexpr (!Tile::kSuper) {
            to[t][h] = dot;
            continue;
          }
          Floats scale = asFloats(panel.scales[at][h]);
          to[t][h] =
              i == 0 ? Simd::mul(dot, scale) : Simd::fma(dot, scale, to[t][h]);
        }
    }
  } else {
    Ints dots[T][2];
    constexpr int kChunk = Tile::kChunk, kChunks = 8 / kChunk / Tile::kSums;
    const int first = part * kChunks;
#pragma GCC unroll 8
    for (int chunk = first; chunk < first + kChunks; ++chunk) {
      Ints sums[T][2];
#pragma GCC unroll 8
      for (int g = chunk * kChunk; g < (chunk + 1) * kChunk; ++g) {
        Ints low = load256(panel.codes[8 * block + g][0]);
        Ints high = load256(panel.codes[8 * block + g][1]);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          Ints x = set32(load32(q[t] + 32 * block + 4 * g));
          Ints products[2] = {products16<Tile>(low, x),
                              products16<Tile>(high, x)};
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h) {
            if (g != chunk * kChunk)
              sums[t][h] = addInOrder16(sums[t][h], products[h]);
            else if constexpr (Tile::kZero != 0)
              sums[t][h] = addInOrder16(
                  products[h],
                  set32(
                      table.start[firstToken + t][8 / kChunk * block + chunk]));
            else
              sums[t][h] = products[h];
          }
        }
      }
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        Ints scale = set16(1);
        if constexpr (Tile::kSuper)
          scale =
              panel.scales[(32 * block + 4 * kChunk * chunk) / Tile::kSub][h];
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          Ints wide = pairProducts(sums[t][h], scale);
          dots[t][h] = chunk == first ? wide : addInOrder32(dots[t][h], wide);
        }
      }
    }
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        to[t][h] = floats(dots[t][h]);
  }
}

/// Multiplies 16 rows, of which `rows` exist, with T tokens over `count`
/// columns of a panel. `firstToken` is an index into `table`.
template <Format F, int T>
void panelTile(const Rows16Panel<F> &panel, const PanelTable<F> &table,
               int64_t firstToken, const uint8_t *const *act, int64_t firstCol,
               int64_t count, int64_t rows, float *out, int64_t outStride) {
  using Tile = Rows16Tile<F>;
  const int8_t *q[T];
  Floats sums[T][2];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    q[t] = reinterpret_cast<const int8_t *>(act[t]) + firstCol;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
      sums[t][h] = firstCol == 0 ? Simd::zero()
                                 : loadMasked(out + t * outStride + 8 * h,
                                              firstLanes(rows - 8 * h));
  }
  const auto *xScale = &table.scale[firstToken];
  const auto *xOffset = &table.offset[firstToken];
  [[maybe_unused]] const auto *xPairs = &table.pairs[firstToken];
  for (int64_t col = 0; col < count; col += Tile::kCols) {
    const Floats *d = panel.d[col / Tile::kCols];
    Floats parts[T][2];
    [[maybe_unused]] Floats minima[T][2];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      parts[t][0] = parts[t][1] = minima[t][0] = minima[t][1] = Simd::zero();
#pragma GCC unroll 1
    for (int64_t block = col / 32; block < (col + Tile::kCols) / 32; ++block) {
      if constexpr (Tile::kIsFloats) {
#pragma GCC unroll 2
        for (int part = 0; part < Tile::kSums; ++part) {
          Floats dots[T][2];
          panelDots<F, T>(panel, block, part, q, table, firstToken, dots);
          const Ints *scale = panel.scales[Tile::kSums * block + part];
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h)
#pragma GCC unroll 8
            for (int t = 0; t < T; ++t)
              sums[t][h] = Simd::fma(
                  dots[t][h],
                  Simd::mul(asFloats(scale[h]), Simd::set(xScale[t][block])),
                  sums[t][h]);
        }
        continue;
      }
      Floats dots[T][2];
      panelDots<F, T>(panel, block, 0, q, table, firstToken, dots);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          Floats x = Simd::set(xScale[t][block]);
          if constexpr (Tile::kSuper)
            parts[t][h] = Simd::fma(dots[t][h], x, parts[t][h]);
          else
            sums[t][h] = Simd::fma(dots[t][h], Simd::mul(d[h], x), sums[t][h]);
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          if constexpr (Tile::kOffsetSub == 32)
            sums[t][h] = Simd::fma(panel.offsets[block][h],
                                   Simd::set(xOffset[t][block]), sums[t][h]);
          if constexpr (Tile::kOffsetSub == 16)
            minima[t][h] =
                Simd::fma(toFloats(pairProducts(panel.minima[block][h],
                                                set32(xPairs[t][block]))),
                          Simd::set(xScale[t][block]), minima[t][h]);
        }
      }
    }
    if constexpr (Tile::kSuper)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          sums[t][h] = Simd::fma(d[h], parts[t][h], sums[t][h]);
          if constexpr (Tile::kOffsetSub == 16)
            sums[t][h] = Simd::fnma(panel.dMin[col / Tile::kCols][h],
                                    minima[t][h], sums[t][h]);
        }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    storeRows<Simd>(out + t * outStride, rows, sums[t]);
}

/// Fills a token's TokenTable::start with laneStarts() of each kSub columns.
template <Format F>
MOE_INLINE void laneStartTable(const A8Row &row, int64_t firstCol,
                               int64_t count, int32_t *to) {
  using Tile = Rows16Tile<F>;
  for (int64_t col = 0; col < count; col += 32)
    laneStarts<Tile::kZero, Tile::kSub>(row.q + firstCol + col,
                                        to + col / Tile::kSub);
}

/// Multiplies at most kPanelRows rows with at most kPanelTokens tokens.
template <Format F>
void rows16PanelBlock(const uint8_t *w, int64_t wStride, int64_t rows,
                      const uint8_t *const *act, int64_t tokens, int64_t cols,
                      float *out, int64_t outStride) {
  using Tile = Rows16Tile<F>;
  // About 120 KiB on the stack, because gemms neither allocate nor get scratch.
  Rows16Panel<F> panel;
  PanelTable<F> table;
  NextRows next(w, rows * wStride);
  for (int64_t col = 0; col < cols; col += kPanelCols) {
    int64_t count = cols - col < kPanelCols ? cols - col : kPanelCols;
    if constexpr (kHasDots)
      fillTable(table, act, tokens, cols, col, count, kDotStart);
    else
      fillTable(table, act, tokens, cols, col, count, laneStartTable<F>);
    if constexpr (Tile::kOffsetSub == 16)
      for (int64_t t = 0; t < tokens; ++t)
        std::memcpy(table.pairs[t], a8Row(act[t], cols).sum + col / 16,
                    size_t(count / 8));
    for (int64_t r = 0; r < rows; r += kRows16) {
      const uint8_t *tile = w + r * wStride + col / Tile::kCols * Tile::kBytes;
      for (int64_t c = 0; c < count; c += Tile::kCols) {
        next.fetch(Tile::kBytes);
        expandTile(panel, c, tile);
        tile += Tile::kBytes;
      }
      forTokenTiles<kRows16TileTokens<F>>(tokens, [&](auto size, int64_t t) {
        panelTile<F, size>(panel, table, t, act + t, col, count, rows - r,
                           out + t * outStride + r, outStride);
      });
    }
  }
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_ROWS16PANEL_H
