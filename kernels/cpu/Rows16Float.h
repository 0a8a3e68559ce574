//===- Rows16Float.h - Gemms of interleaved F16 and BF16 rows ---*- C++ -*-===//
//
// A tile is two columns of 16 rows. Weights are widened exactly; each column is
// multiplied with a broadcast activation, so that sums need no reduction over
// lanes. S is an instruction set's trait (cpu/Simd.h); the loader L of a format
// has
//   kPanels, kTokens     size of a register tile: its sums, two columns of
//                        weights and a broadcast fit in registers
//   column(tile, c, to)  column c, 0 or 1, as 16 floats
//   rows(v)              reorders 16 floats from column()'s order to row order
// One token needs an FMA per 16 or 32 bytes of weights, so that memory is the
// limit; with more tokens, FMAs are. Rows of activations are often a multiple
// of 4 KiB apart, so that an 8-way cache holds at most 8 of them. Hence a tile
// has few tokens and, with many registers, two panels.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ROWS16FLOAT_H
#define MOE_KERNELS_CPU_ROWS16FLOAT_H

#include "kernels/cpu/GemmTiling.h"
#include "kernels/cpu/Simd.h"
#include "kernels/quant/Rows16.h"

namespace moek {
namespace {

/// Multiplies G panels, which contain `rows` rows, with T tokens.
template <class S, class L, int G, int T>
void floatPanels(const uint8_t *w, int64_t wStride, int64_t rows,
                 const uint8_t *const *act, int64_t cols, float *out,
                 int64_t outStride) {
  using Vec = typename S::Vec;
  constexpr int kVecs = int(kRows16) / S::kWidth;
  // Two sums alternate where one set would be too few to hide an FMA's latency.
  constexpr int kChains = G * T * kVecs <= 4 ? 2 : 1;
  const float *x[T];
  Vec sums[kChains][G][T][kVecs];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    x[t] = reinterpret_cast<const float *>(act[t]);
#pragma GCC unroll 2
    for (int chain = 0; chain < kChains; ++chain)
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
        for (int v = 0; v < kVecs; ++v)
          sums[chain][g][t][v] = S::zero();
  }
  for (int64_t col = 0; col < cols; col += 2, w += 4 * kRows16) {
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g)
      prefetchStream<64>(w + g * kRows16 * wStride);
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      Vec columns[G][kVecs];
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g)
        L::column(w + g * kRows16 * wStride, c, columns[g]);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        Vec xs = S::set(x[t][col + c]);
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
          for (int v = 0; v < kVecs; ++v) {
            Vec &to = sums[c % kChains][g][t][v];
            Vec sum = S::fma(columns[g][v], xs, to);
            // GCC would move sums around and spill one.
            S::pin(sum);
            to = sum;
          }
      }
    }
  }
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      Vec *sum = sums[0][g][t];
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        if constexpr (kChains == 2)
          sum[v] = S::add(sum[v], sums[1][g][t][v]);
      L::rows(sum);
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) {
        int64_t first = g * kRows16 + v * S::kWidth;
        if (first < rows)
          S::storeFirst(out + t * outStride + first, sum[v], rows - first);
      }
    }
}

template <class S, class L>
void rows16FloatGemm(const uint8_t *w, int64_t wStride, int64_t rows,
                     const uint8_t *const *act, int64_t tokens, int64_t cols,
                     float *out, int64_t outStride) {
  constexpr int64_t kStep = L::kPanels * kRows16;
  for (int64_t r = 0; r < rows; r += kStep) {
    auto panels = [&](auto count) {
      forTokenTiles<L::kTokens>(tokens, [&](auto size, int64_t t) {
        floatPanels<S, L, count, size>(w + r * wStride, wStride, rows - r,
                                       act + t, cols, out + t * outStride + r,
                                       outStride);
      });
    };
    callWithSize<L::kPanels>((rows - r + kRows16 - 1) / kRows16, panels);
  }
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_ROWS16FLOAT_H
