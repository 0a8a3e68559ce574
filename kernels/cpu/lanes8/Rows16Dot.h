//===- Rows16Dot.h - Dot products of streamed panels ------------*- C++ -*-===//
//
// A panel's tiles are read once, in memory order: codes are unpacked in
// registers and multiplied with every token's broadcast activations. Codes are
// multiplied as they are stored; the terms of kZero and the minima are computed
// from the activations' sums, one vpmaddwd per 32 columns.
//
// For one token, 32 columns of Q4_K are 24 unpacking instructions, 16
// vpmaddubsw and as many additions, some 20 for scales and minima and 13 loads:
// 288 bytes of weights in about 23 cycles. Q2_K takes 114 instructions and 27
// cycles for 168 bytes, Q3_K 178 and 40 for 220, which is where unpacking, not
// memory, is the limit.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_ROWS16DOT_H
#define MOE_KERNELS_CPU_LANES8_ROWS16DOT_H

#include "kernels/cpu/lanes8/Rows16Tile.h"

namespace moek::MOE_ISA {
namespace {

/// Number of groups of four columns that add up in int16 without overflow.
template <Format F> constexpr int dotChunk() {
  using Tile = Rows16Tile<F>;
  int most = Tile::kSigned ? Tile::kReach : Tile::kMaxCode;
  int groups = Tile::kSub / 4;
  while (2 * 127 * most * groups > 32767)
    groups /= 2;
  return groups;
}

/// Returns the group of four columns that is the i-th to be multiplied. Groups
/// g and g + 4 share bytes, so they are unpacked one after the other.
template <Format F> constexpr int groupAt(int i) {
  constexpr int kBits = Rows16Tile<F>::kBits;
  return kBits >= 4 && kBits <= 6 ? i / 2 + i % 2 * 4 : i;
}

/// Multiplies columns 32 s ... of a tile's halves from `half` on (H times 8
/// rows) with T tokens' blocks of activations. `scales` are integers, one per
/// kSub columns, or ones. `dots` are the kSums sums.
template <Format F, int H, int T>
MOE_INLINE void blockDots(const uint8_t *tile, int s, int half,
                          const Ints (*scales)[2], const A8Row *rows,
                          int64_t block, Ints (*dots)[H][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int kChunk = dotChunk<F>();
  // Groups g and g + 4 are summed separately if a sum has room for at most four
  // groups.
  Ints sums[H][T][2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    int g = groupAt<F>(i);
    int chain = kChunk == 8 ? 0 : g / 4;
    int link = (kChunk == 8 ? i : g) % kChunk;
    int part = Tile::kSums == 2 ? chain : 0;
    bool first = chain == part && g % 4 < kChunk;
    Ints codes[H];
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h)
      codes[h] = Tile::code(tile, s, half + h, g);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      Ints x = set32(load32(rows[t].q + 32 * block + 4 * g));
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) {
        Ints products = products16<Tile>(codes[h], x);
        Ints &sum = sums[h][t][chain];
        sum = link == 0 ? products : addInOrder16(sum, products);
        if (link + 1 != kChunk)
          continue;
        Ints wide = pairProducts(sum, scales[h][g * 4 / Tile::kSub]);
        Ints &to = dots[part][h][t];
        to = first || kChunk == 8 ? wide : addInOrder32(to, wide);
      }
    }
  }
}

/// Returns the sums of 16 activations of a block, as int16 in every pair of
/// columns.
MOE_INLINE Ints pairSumsOf(const A8Row &row, int64_t block) {
  return set32(load32(row.sum + 2 * block));
}

/// Computes the sums of (code - kZero) * x over each kSub of columns 32 s ...
/// of a tile whose scales are not integers, or with vpdpbusd of any; floats()
/// converts them.
template <Format F, int H, int T>
MOE_INLINE void subDots(const uint8_t *tile, int s, int half, const A8Row *rows,
                        int64_t block, Ints (*dots)[H][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int kSubs = 32 / Tile::kSub;
  // Two sums of activations are adjacent; only that of these columns counts.
  [[maybe_unused]] auto zeros = [&](int i, const A8Row &row) {
    int zero = Tile::kZero & 0xffff;
    return pairProducts(
        pairSumsOf(row, block),
        set32(kSubs == 1 ? zero << 16 | zero : zero << (16 * i)));
  };
  if constexpr (!kHasDots) {
    static_assert(kSubs == Tile::kSums);
    const Ints ones = set16(1);
    const Ints scales[2][2] = {{ones, ones}, {ones, ones}};
    blockDots<F, H, T>(tile, s, half, scales, rows, block, dots);
    if constexpr (Tile::kZero != 0)
#pragma GCC unroll 2
      for (int i = 0; i < kSubs; ++i)
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t)
            dots[i][h][t] = sub32(dots[i][h][t], zeros(i, rows[t]));
  } else {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
      for (int i = 0; i < kSubs; ++i) {
        Ints start = set32(kDotStart);
        if constexpr (Tile::kZero != 0)
          start = sub32(start, zeros(i, rows[t]));
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h)
          dots[i][h][t] = start;
      }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      int g = groupAt<F>(i);
      Ints codes[H];
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h)
        codes[h] = Tile::code(tile, s, half + h, g);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        Ints x = set32(load32(rows[t].q + 32 * block + 4 * g));
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h) {
          Ints &sum = dots[g * 4 / Tile::kSub][h][t];
          sum = dot4(sum, codes[h], x);
        }
      }
    }
  }
}

/// Computes the sums of scale * (code - kZero) * x over columns 32 s ... of a
/// tile with integer scales. They are exact.
template <Format F, int H, int T>
MOE_INLINE void superDots(const uint8_t *tile,
                          const typename Rows16Tile<F>::Integers &integers,
                          int s, int half, const A8Row *rows, int64_t block,
                          Floats dots[H][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int kSubs = 32 / Tile::kSub;
  Ints scales[H][2];
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h)
#pragma GCC unroll 2
    for (int i = 0; i < kSubs; ++i)
      scales[h][i] = Tile::scale(tile, integers, s, i, half + h);
  if constexpr (kHasDots) {
    Ints sums[kSubs][H][T];
    subDots<F, H, T>(tile, s, half, rows, block, sums);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h)
#pragma GCC unroll 2
      for (int i = 0; i < kSubs; ++i) {
        Floats scale = Tile::floatsOf(scales[h][i]);
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) {
          Floats sum = floats(sums[i][h][t]);
          dots[h][t] = i == 0 ? Simd::mul(sum, scale)
                              : Simd::fma(sum, scale, dots[h][t]);
        }
      }
  } else {
    Ints sums[1][H][T];
    blockDots<F, H, T>(tile, s, half, scales, rows, block, sums);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      Ints zeros;
      if constexpr (Tile::kZero != 0) {
        static_assert(kHasDots || Tile::kZero <= 32);
        Ints pairs = scales[h][0];
        if constexpr (Tile::kSub == 16)
          pairs = Tile::pairScales(tile, integers, s, half + h);
        zeros = mul16(pairs, set16(Tile::kZero));
      }
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        Ints sum = sums[0][h][t];
        if constexpr (Tile::kZero != 0)
          sum = sub32(sum, pairProducts(zeros, pairSumsOf(rows[t], block)));
        dots[h][t] = floats(sum);
      }
    }
  }
}

/// Multiplies a tile of 256 columns with T tokens; `block` is the index of the
/// tokens' first block of 32 columns. With several tokens the first eight rows
/// are processed before the other eight, whose codes are in L1 by then: this
/// halves the accumulators, so that all fit in registers. One token's
/// accumulators of both halves fit, and then broadcasts serve 16 rows.
template <Format F, int T>
MOE_INLINE void dotSuper(const uint8_t *tile, const A8Row *rows, int64_t block,
                         Floats sums[2][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int H = T == 1 ? 2 : 1;
  constexpr int kStepBytes = Tile::kPartBytes * H / 2;
  typename Tile::Integers integers;
  Tile::unpack(tile, integers);
  alignas(32) float xSums[T][8];
  if constexpr (Tile::kOffsetSub == 32)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      Simd::store(
          xSums[t],
          Simd::mul(toFloats(pairSums(load256(rows[t].sum + 2 * block))),
                    Simd::load(rows[t].scale + block)));
#pragma GCC unroll 1
  for (int half = 0; half < 2; half += H) {
    Floats parts[H][T], dMin[H];
    [[maybe_unused]] Floats minima[H][T];
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      if constexpr (Tile::kOffsetSub != 0)
        dMin[h] = Tile::factor(tile, 1, half + h);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        parts[h][t] = minima[h][t] = Simd::zero();
    }
#pragma GCC unroll 1
    for (int s = 0; s < 8; ++s) {
      prefetchStream<kStepBytes>(tile + (8 * half + s) * kStepBytes);
      Floats dots[H][T];
      superDots<F, H, T>(tile, integers, s, half, rows, block + s, dots);
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) {
        Ints minimaPairs;
        Floats offset;
        if constexpr (Tile::kOffsetSub == 32)
          offset =
              Simd::mul(dMin[h], Tile::minimum(tile, integers, s, 0, half + h));
        if constexpr (Tile::kOffsetSub == 16)
          minimaPairs = Tile::pairMinima(tile, s, half + h);
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) {
          Floats xScale = Simd::set(rows[t].scale[block + s]);
          parts[h][t] = Simd::fma(dots[h][t], xScale, parts[h][t]);
          if constexpr (Tile::kOffsetSub == 32)
            sums[half + h][t] =
                Simd::fnma(offset, Simd::set(xSums[t][s]), sums[half + h][t]);
          if constexpr (Tile::kOffsetSub == 16)
            minima[h][t] =
                Simd::fma(toFloats(pairProducts(
                              minimaPairs, pairSumsOf(rows[t], block + s))),
                          xScale, minima[h][t]);
        }
      }
    }
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      Floats d = Tile::factor(tile, 0, half + h);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        Floats &sum = sums[half + h][t];
        sum = Simd::fma(d, parts[h][t], sum);
        if constexpr (Tile::kOffsetSub == 16)
          sum = Simd::fnma(dMin[h], minima[h][t], sum);
      }
    }
  }
}

/// Multiplies a tile of 64 columns with ScaleCode::Floats with T tokens, in the
/// same order.
template <Format F, int T>
MOE_INLINE void dotFloats(const uint8_t *tile, const A8Row *rows, int64_t block,
                          Floats sums[2][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int H = T == 1 ? 2 : 1;
  constexpr int kStepBytes = Tile::kPartBytes * H / 2;
#pragma GCC unroll 1
  for (int half = 0; half < 2; half += H)
#pragma GCC unroll 1
    for (int s = 0; s < 2; ++s) {
      prefetchStream<kStepBytes>(tile + (2 * half + s) * kStepBytes);
      Ints dots[2][H][T];
      subDots<F, H, T>(tile, s, half, rows, block + s, dots);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h) {
          Floats scale = Tile::floatScale(tile, 2 * s + i, half + h);
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) {
            Floats xScale = Simd::set(rows[t].scale[block + s]);
            Floats &sum = sums[half + h][t];
            sum =
                Simd::fma(floats(dots[i][h][t]), Simd::mul(scale, xScale), sum);
          }
        }
      }
    }
}

/// Multiplies a tile of 32 columns with T tokens; `block` is the index of the
/// tokens' block.
template <Format F, int T>
MOE_INLINE void dotBlock(const uint8_t *tile, const A8Row *rows, int64_t block,
                         Floats sums[2][T]) {
  using Tile = Rows16Tile<F>;
  constexpr int H = T == 1 ? 2 : 1;
  prefetchStream<Tile::kBytes>(tile);
#pragma GCC unroll 2
  for (int half = 0; half < 2; half += H) {
    Ints dots[1][H][T];
    subDots<F, H, T>(tile, 0, half, rows, block, dots);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      Floats d = Tile::factor(tile, 0, half + h);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        Floats &sum = sums[half + h][t];
        Floats xScale = Simd::set(rows[t].scale[block]);
        sum = Simd::fma(floats(dots[0][h][t]), Simd::mul(d, xScale), sum);
        if constexpr (Tile::kOffsetSub != 0)
          sum = Simd::fma(
              Tile::factor(tile, 1, half + h),
              Simd::mul(xScale, toFloats(pairSums(pairSumsOf(rows[t], block)))),
              sum);
      }
    }
  }
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_ROWS16DOT_H
