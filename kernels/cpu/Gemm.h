//===- Gemm.h - CPU kernels of matrix products ------------------*- C++ -*-===//
//
// Such a kernel divides the weight rows among the workers, calls the format's
// GemmFn for tiles of kRowTile rows and kTokenTile tokens, and applies the
// epilogue to the output. A weight tile stays in L2 for all tokens.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_GEMM_H
#define MOE_KERNELS_CPU_GEMM_H

#include "kernels/Abi.h"
#include "kernels/Scratch.h"
#include "kernels/cpu/Activations.h"
#include "kernels/cpu/Share.h"

namespace moek {

/// Scratch memory of such a kernel.
struct GemmScratch {
  /// [kTokenTile, kRowTile]; `second` holds sums of the up matrix.
  float *first, *second;
  const uint8_t **act; ///< [kTokenTile]
};

MOE_INLINE GemmScratch gemmScratch(std::byte *scratch) {
  constexpr int64_t kTile = kTokenTile * kRowTile;
  float *tile = reinterpret_cast<float *>(scratch);
  return {tile, tile + kTile, reinterpret_cast<const uint8_t **>(tile + kTile)};
}

MOE_INLINE GemmScratch gateUpScratch(std::byte *scratch) {
  constexpr int64_t kTile = kTokenTile * kRowTile;
  float *tile = reinterpret_cast<float *>(scratch);
  return {tile, tile + kTile,
          reinterpret_cast<const uint8_t **>(tile + 2 * kTile)};
}

/// Calls body(begin, n) for tiles of [range.begin, range.end).
template <class Body>
MOE_INLINE void forTiles(Range range, int64_t tile, Body body) {
  for (int64_t i = range.begin; i < range.end; i += tile)
    body(i, range.end - i < tile ? range.end - i : tile);
}

/// Calls body(row, rows) for tiles of the weight rows that this worker
/// processes. With many tokens, a ticket takes a whole tile, because the tile's
/// weights are expanded and all activations read once per tile.
template <class Body>
MOE_INLINE void forRowTiles(int64_t rows, int64_t tokens, const Worker &worker,
                            Body body) {
  Range grains = nodeShare((rows + kRowGrain - 1) / kRowGrain, worker);
  int64_t least = tokens < kRowGrain ? 1 : kRowTile / kRowGrain;
  forShares(grains.end - grains.begin, least, nodeTeam(worker),
            [&](int64_t begin, int64_t end) {
              int64_t last = (grains.begin + end) * kRowGrain;
              forTiles({(grains.begin + begin) * kRowGrain,
                        last < rows ? last : rows},
                       kRowTile, body);
            });
}

/// Biases of a tile's weight rows, null for none.
struct GateUpBias {
  const float *gate, *up;
};

/// Computes out[t][r] = activation(gate[t][r], up[t][r]) for a tile, after
/// adding the biases to both; row t is stored at rowOf(t).
template <class S, class RowOf>
MOE_INLINE void gateUpEpilogue(const GemmScratch &tiles, int64_t tokens,
                               int64_t rows, Activation kind,
                               const GateUpBias &bias, RowOf rowOf) {
  withActivation<S>(kind, [&](auto activation) {
    for (int64_t t = 0; t < tokens; ++t) {
      const float *gate = tiles.first + t * kRowTile;
      const float *up = tiles.second + t * kRowTile;
      float *out = rowOf(t);
      forVectors<S>(0, rows, [&](int64_t i, auto lanes) {
        auto g = lanes.load(gate + i), u = lanes.load(up + i);
        if (bias.gate)
          g = S::add(g, lanes.load(bias.gate + i));
        if (bias.up)
          u = S::add(u, lanes.load(bias.up + i));
        lanes.store(out + i, activation(g, u));
      });
    }
  });
}

/// Returns `bias` from element `i` on, or null if there is none.
MOE_INLINE const float *biasAt(const float *bias, int64_t i) {
  return bias ? bias + i : nullptr;
}

/// The epilogue of Linear: stores a finished tile with bias and accumulation.
template <class S>
void linearEpilogue(const LinearArgs &a, const float *tile, int64_t token,
                    int64_t tokens, int64_t row, int64_t rows) {
  for (int64_t t = 0; t < tokens; ++t) {
    float *out = a.out + (token + t) * a.outStride + row;
    forVectors<S>(0, rows, [&](int64_t i, auto lanes) {
      auto v = lanes.load(tile + t * kRowTile + i);
      if (a.bias)
        v = S::add(v, lanes.load(a.bias + row + i));
      if (a.accumulate)
        v = S::add(v, lanes.load(out + i));
      lanes.store(out + i, v);
    });
  }
}

template <class S>
void run(const LinearArgs &a, const Step &step, const Worker &worker) {
  GemmScratch tiles = gemmScratch(worker.scratch);
  bool direct = !a.bias && !a.accumulate;
  forRowTiles(a.w.rows, step.tokens, worker, [&](int64_t row, int64_t rows) {
    const uint8_t *w = a.w.data + row * a.w.rowStride;
    forTiles({0, step.tokens}, kTokenTile, [&](int64_t token, int64_t tokens) {
      for (int64_t t = 0; t < tokens; ++t)
        tiles.act[t] = a.act + (token + t) * a.actStride;
      if (direct) {
        a.gemm(w, a.w.rowStride, rows, tiles.act, tokens, a.w.cols,
               a.out + token * a.outStride + row, a.outStride);
        return;
      }
      a.gemm(w, a.w.rowStride, rows, tiles.act, tokens, a.w.cols, tiles.first,
             kRowTile);
      linearEpilogue<S>(a, tiles.first, token, tokens, row, rows);
    });
  });
}

template <class S>
void run(const GateUpArgs &a, const Step &step, const Worker &worker) {
  GemmScratch tiles = gateUpScratch(worker.scratch);
  forRowTiles(a.gate.rows, step.tokens, worker, [&](int64_t row, int64_t rows) {
    forTiles({0, step.tokens}, kTokenTile, [&](int64_t token, int64_t tokens) {
      for (int64_t t = 0; t < tokens; ++t)
        tiles.act[t] = a.act + (token + t) * a.actStride;
      a.gateGemm(a.gate.data + row * a.gate.rowStride, a.gate.rowStride, rows,
                 tiles.act, tokens, a.gate.cols, tiles.first, kRowTile);
      a.upGemm(a.up.data + row * a.up.rowStride, a.up.rowStride, rows,
               tiles.act, tokens, a.up.cols, tiles.second, kRowTile);
      gateUpEpilogue<S>(
          tiles, tokens, rows, a.activation,
          {biasAt(a.gateBias, row), biasAt(a.upBias, row)},
          [&](int64_t t) { return a.out + (token + t) * a.outStride + row; });
    });
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_GEMM_H
