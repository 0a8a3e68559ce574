//===- Experts.h - CPU kernels of routed experts ----------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_EXPERTS_H
#define MOE_KERNELS_CPU_EXPERTS_H

#include "kernels/Abi.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/Gemm.h"

namespace moek {

/// One worker does a counting sort: 3072 slots take about 5 us.
template <class S>
void run(const ExpertGroupArgs &a, const Step &step, const Worker &worker) {
  if (worker.index != 0)
    return;
  int64_t slots = int64_t(step.tokens) * a.topK;
  int32_t *offsets = a.offsets;
  int32_t here = a.slice.count ? a.slice.count : a.experts;
  for (int32_t e = 0; e <= here; ++e)
    offsets[e] = 0;
  for (int64_t i = 0; i < slots; ++i)
    if (int32_t e = a.slice.numberOf(a.ids[i]); e >= 0)
      ++offsets[e + 1];
  for (int32_t e = 0; e < here; ++e)
    offsets[e + 1] += offsets[e];
  // Placing a slot advances its expert's offset, in the end to where the next
  // expert's slots begin. Moving all offsets up by one place restores them.
  for (int64_t i = 0; i < slots; ++i)
    if (int32_t e = a.slice.numberOf(a.ids[i]); e >= 0)
      a.slots[offsets[e]++] = int32_t(i);
  for (int32_t e = here; e > 0; --e)
    offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

/// The cost of reading and unpacking a weight row, in units of multiplying it
/// with one slot: an expert with one slot takes as long as one with a few,
/// because memory is the limit.
inline constexpr int64_t kRowCostInSlots = 4;

/// Calls body(expert, rows, slots) for this worker's share of all pairs of an
/// expert in use and a weight row. Shares are contiguous and cost the same
/// within kRowGrain rows of one expert. A NUMA node processes the same rows of
/// every expert, whichever experts a step uses.
template <class Body>
MOE_INLINE void forExpertShare(const int32_t *offsets, int64_t experts,
                               int64_t rows, const Worker &worker, Body body) {
  Range node = nodeShare((rows + kRowGrain - 1) / kRowGrain, worker);
  int64_t grains = node.end - node.begin, total = 0;
  for (int64_t e = 0; e < experts; ++e)
    if (int64_t slots = offsets[e + 1] - offsets[e])
      total += (slots + kRowCostInSlots) * grains;
  forShares(total, 1, nodeTeam(worker), [&](int64_t begin, int64_t end) {
    // The grain that contains a boundary belongs to the share before it.
    int64_t cost = 0;
    for (int64_t e = 0; e < experts && cost < end; ++e) {
      int64_t slots = offsets[e + 1] - offsets[e];
      if (slots == 0)
        continue;
      int64_t each = slots + kRowCostInSlots;
      auto grainAt = [&](int64_t boundary) {
        int64_t grain =
            boundary <= cost ? 0 : (boundary - cost + each - 1) / each;
        return node.begin + (grain < grains ? grain : grains);
      };
      Range range{grainAt(begin) * kRowGrain, grainAt(end) * kRowGrain};
      if (range.end > rows)
        range.end = rows;
      if (range.begin < range.end)
        body(e, range, Range{offsets[e], offsets[e + 1]});
      cost += each * grains;
    }
  });
}

/// out = row + bias; a null bias is skipped.
template <class S>
MOE_INLINE void storeRow(const float *row, const float *bias, int64_t count,
                         float *out) {
  forVectors<S>(0, count, [&](int64_t i, auto lanes) {
    auto v = lanes.load(row + i);
    lanes.store(out + i, bias ? S::add(v, lanes.load(bias + i)) : v);
  });
}

template <class S>
void run(const ExpertsLinearArgs &a, const Step &step, const Worker &worker) {
  GemmScratch tiles = gemmScratch(worker.scratch);
  forExpertShare(
      a.offsets, a.w.outer, a.w.rows, worker,
      [&](int64_t expert, Range share, Range list) {
        forTiles(share, kRowTile, [&](int64_t row, int64_t rows) {
          const uint8_t *w =
              a.w.data + expert * a.w.outerStride + row * a.w.rowStride;
          forTiles(list, kTokenTile, [&](int64_t first, int64_t count) {
            const int32_t *slots = a.slots + first;
            for (int64_t t = 0; t < count; ++t)
              tiles.act[t] =
                  a.act +
                  (a.actPerToken ? slots[t] / a.topK : slots[t]) * a.actStride;
            auto rowOf = [&](int64_t t) {
              return a.out + slots[t] * a.outStride + row;
            };
            if (count == 1 && !a.bias) {
              a.gemm(w, a.w.rowStride, rows, tiles.act, 1, a.w.cols, rowOf(0),
                     a.outStride);
              return;
            }
            a.gemm(w, a.w.rowStride, rows, tiles.act, count, a.w.cols,
                   tiles.first, kRowTile);
            const float *bias = biasAt(a.bias, expert * a.w.rows + row);
            for (int64_t t = 0; t < count; ++t)
              storeRow<S>(tiles.first + t * kRowTile, bias, rows, rowOf(t));
          });
        });
      });
}

template <class S>
void run(const ExpertsGateUpArgs &a, const Step &step, const Worker &worker) {
  GemmScratch tiles = gateUpScratch(worker.scratch);
  forExpertShare(
      a.offsets, a.gate.outer, a.gate.rows, worker,
      [&](int64_t expert, Range share, Range list) {
        forTiles(share, kRowTile, [&](int64_t row, int64_t rows) {
          const uint8_t *gate = a.gate.data + expert * a.gate.outerStride +
                                row * a.gate.rowStride;
          const uint8_t *up =
              a.up.data + expert * a.up.outerStride + row * a.up.rowStride;
          forTiles(list, kTokenTile, [&](int64_t first, int64_t count) {
            const int32_t *slots = a.slots + first;
            for (int64_t t = 0; t < count; ++t)
              tiles.act[t] = a.act + slots[t] / a.topK * a.actStride;
            a.gateGemm(gate, a.gate.rowStride, rows, tiles.act, count,
                       a.gate.cols, tiles.first, kRowTile);
            a.upGemm(up, a.up.rowStride, rows, tiles.act, count, a.up.cols,
                     tiles.second, kRowTile);
            int64_t at = expert * a.gate.rows + row;
            gateUpEpilogue<S>(tiles, count, rows, a.activation,
                              {biasAt(a.gateBias, at), biasAt(a.upBias, at)},
                              [&](int64_t t) {
                                return a.out + slots[t] * a.outStride + row;
                              });
          });
        });
      });
}

/// Workers divide the columns, because a token has few slots.
template <class S>
void run(const ExpertsActivationMulArgs &a, const Step &step,
         const Worker &worker) {
  Range share = shareOf(a.cols, kNormGrain, worker);
  withActivation<S>(a.activation, [&](auto activation) {
    for (int64_t e = 0; e < a.experts; ++e) {
      auto gateScale = S::set(a.gateScale ? a.gateScale[e] : 1);
      auto upScale = S::set(a.upScale ? a.upScale[e] : 1);
      for (int32_t i = a.offsets[e]; i < a.offsets[e + 1]; ++i) {
        int64_t row = a.slots[i] * a.cols;
        forVectors<S>(
            row + share.begin, row + share.end, [&](int64_t c, auto lanes) {
              lanes.store(a.out + c,
                          activation(S::mul(gateScale, lanes.load(a.gate + c)),
                                     S::mul(upScale, lanes.load(a.up + c))));
            });
      }
    }
  });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_EXPERTS_H
