//===- HeadLinear.h - W_UK and W_UV applied around latent attention -------===//
//
// Both stream a weight once: kHeadRows rows become floats in L1 and meet all
// tokens there. Workers share out (head, part of the output) pairs, so that one
// token keeps more workers busy than there are heads.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_HEADLINEAR_H
#define MOE_KERNELS_CPU_HEADLINEAR_H

#include "kernels/Scratch.h"
#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/WeightRows.h"

namespace moek {

/// Calls body(head, begin, end) for this worker's share of heads x [0, count),
/// split at multiples of `grain`.
template <class Body>
MOE_INLINE void forHeadShare(int64_t heads, int64_t count, int64_t grain,
                             const Worker &worker, Body body) {
  int64_t parts = (count + grain - 1) / grain;
  Range range = shareOf(heads * parts, 1, worker);
  for (int64_t i = range.begin; i < range.end;) {
    int64_t head = i / parts, first = i % parts;
    int64_t last = first + (range.end - i);
    if (last > parts)
      last = parts;
    body(head, first * grain, last < parts ? last * grain : count);
    i += last - first;
  }
}

/// The weight's part [head][row .. row + rows][col .. col + cols] as floats.
template <class S>
Rows headRows(const WeightView &w, int64_t head, int64_t row, int64_t rows,
              int64_t col, int64_t cols, float *scratch) {
  int64_t stride = scratchFloats(cols);
  for (int64_t r = 0; r < rows; ++r)
    weightRow<S>(w, head, row + r, col, cols, scratch + r * stride);
  return {scratch, stride};
}

/// out[t][r] = w[head][r] . x[t] for r in [begin, end).
template <class S>
void headDots(const WeightView &w, int64_t head, int64_t begin, int64_t end,
              Rows x, int64_t tokens, float *out, int64_t outStride,
              float *scratch) {
  for (int64_t row = begin; row < end; row += kHeadRows) {
    int64_t rows = end - row < kHeadRows ? end - row : kHeadRows;
    Rows floats = headRows<S>(w, head, row, rows, 0, w.cols, scratch);
    dotRows<S>(x, tokens, floats, rows, w.cols, 1, out + row, outStride);
  }
}

/// out[t][c] = sum over rows r of x[t][r] * w[head][r][c] for c in [begin,
/// end).
template <class S>
void headSums(const WeightView &w, int64_t head, int64_t begin, int64_t end,
              Rows x, int64_t tokens, float *out, int64_t outStride,
              float *scratch) {
  for (int64_t row = 0; row < w.rows; row += kHeadRows) {
    int64_t rows = w.rows - row < kHeadRows ? w.rows - row : kHeadRows;
    Rows floats = headRows<S>(w, head, row, rows, begin, end - begin, scratch);
    sumRows<S>({x.data + row, x.stride}, tokens, {row == 0}, floats, rows,
               end - begin, out + begin, outStride);
  }
}

/// Rows of output per share: whole cache lines of floats.
inline constexpr int64_t kHeadRowGrain = 16;
/// Columns per share, where a weight is split by column: 128, or a block.
MOE_INLINE int64_t headColGrain(const WeightView &w) {
  int64_t block = formatInfo(w.format).blockElements;
  return block > 128 ? block : 128;
}

template <class S>
void run(const AbsorbQueryArgs &a, const Step &step, const Worker &worker) {
  auto *scratch = reinterpret_cast<float *>(worker.scratch);
  int64_t width = a.latent + a.rope;
  int64_t grain = a.transposed ? kHeadRowGrain : headColGrain(a.w);
  forHeadShare(a.heads, a.latent, grain, worker,
               [&](int64_t head, int64_t begin, int64_t end) {
                 Rows q{a.q + head * (a.nope + a.rope), a.qStride};
                 float *out = a.out + head * width;
                 if (a.transposed)
                   headDots<S>(a.w, head, begin, end, q, step.tokens, out,
                               a.outStride, scratch);
                 else
                   headSums<S>(a.w, head, begin, end, q, step.tokens, out,
                               a.outStride, scratch);
                 if (end == a.latent)
                   for (int64_t t = 0; t < step.tokens; ++t)
                     std::memcpy(out + t * a.outStride + a.latent,
                                 q.data + t * q.stride + a.nope,
                                 size_t(a.rope) * sizeof(float));
               });
}

template <class S>
void run(const ExpandValueArgs &a, const Step &step, const Worker &worker) {
  forHeadShare(a.heads, a.value, kHeadRowGrain, worker,
               [&](int64_t head, int64_t begin, int64_t end) {
                 headDots<S>(a.w, head, begin, end,
                             {a.x + head * a.latent, a.xStride}, step.tokens,
                             a.out + head * a.value, a.outStride,
                             reinterpret_cast<float *>(worker.scratch));
               });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_HEADLINEAR_H
