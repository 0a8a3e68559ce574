//===- HeadLinear.h - Products with W_UK and W_UV per head ------*- C++ -*-===//
//
// HeadLinear multiplies each head's activations with a gemm. AbsorbQuery reads
// W_UK as the file has it, where the columns are the outputs: kHeadRows rows
// are converted to floats in L1 and multiplied with all tokens there. Workers
// divide the pairs of a head and a range of outputs, so that one token can keep
// more workers busy than there are heads; each worker encodes the activations
// of its own heads.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_HEADLINEAR_H
#define MOE_KERNELS_CPU_HEADLINEAR_H

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/Scratch.h"
#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/Elementwise.h"
#include "kernels/cpu/Gemm.h"
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

/// Converts [head][row .. row + rows][col .. col + cols] of the weight to
/// floats.
template <class S>
Rows headRowsAsFloats(const WeightView &w, int64_t head, int64_t row,
                      int64_t rows, int64_t col, int64_t cols, float *scratch) {
  int64_t stride = scratchFloats(cols);
  for (int64_t r = 0; r < rows; ++r)
    weightRow<S>(w, head, row + r, col, cols, scratch + r * stride);
  return {scratch, stride};
}

/// Copies `count` columns of `tokens` rows.
MOE_INLINE void copyTails(const float *from, int64_t fromStride, float *to,
                          int64_t toStride, int64_t tokens, int64_t count) {
  for (int64_t t = 0; t < tokens; ++t)
    std::memcpy(to + t * toStride, from + t * fromStride,
                size_t(count) * sizeof(float));
}

/// out[t][c] = sum over rows r of x[t][r] * w[head][r][c] for c in [begin,
/// end).
template <class S>
void headSums(const WeightView &w, int64_t head, int64_t begin, int64_t end,
              Rows x, int64_t tokens, float *out, int64_t outStride,
              float *scratch) {
  for (int64_t row = 0; row < w.rows; row += kHeadRows) {
    int64_t rows = w.rows - row < kHeadRows ? w.rows - row : kHeadRows;
    Rows floats =
        headRowsAsFloats<S>(w, head, row, rows, begin, end - begin, scratch);
    sumRows<S>(Rows{x.data + row, x.stride}, tokens, {row == 0}, floats, rows,
               end - begin, out + begin, outStride);
  }
}

/// Columns in which work is divided: 128, or the format's block if it is
/// larger.
MOE_INLINE int64_t headColGrain(const WeightView &w) {
  int64_t block = formatInfo(w.format).blockElements;
  return block > 128 ? block : 128;
}

template <class S>
void run(const AbsorbQueryArgs &a, const Step &step, const Worker &worker) {
  int64_t width = a.latent + a.rope;
  forHeadShare(a.heads, a.latent, headColGrain(a.w), worker,
               [&](int64_t head, int64_t begin, int64_t end) {
                 Rows q{a.q + head * (a.nope + a.rope), a.qStride};
                 float *out = a.out + head * width;
                 headSums<S>(a.w, head, begin, end, q, step.tokens, out,
                             a.outStride,
                             reinterpret_cast<float *>(worker.scratch));
                 if (end == a.latent)
                   copyTails(q.data + a.nope, q.stride, out + a.latent,
                             a.outStride, step.tokens, a.rope);
               });
}

/// Makes `count` rows of `cols` floats, `stride` apart, readable for a gemm
/// with activations of `encoding`: act[i] points at row i, either in place or
/// encoded in `scratch`.
template <class S>
void encodeRows(Encoding encoding, const float *x, int64_t stride,
                int64_t count, int64_t cols, std::byte *scratch,
                const uint8_t **act) {
  for (int64_t i = 0; i < count; ++i) {
    if (isA8(encoding)) {
      auto *row = reinterpret_cast<uint8_t *>(scratch) + i * a8RowBytes(cols);
      int64_t blockCols = a8BlockCols(encoding);
      quantizeBlocks<S>(x + i * stride, cols, blockCols,
                        {0, (cols + blockCols - 1) / blockCols}, row);
      act[i] = row;
    } else {
      act[i] = reinterpret_cast<const uint8_t *>(x + i * stride);
    }
  }
}

template <class S>
void run(const HeadLinearArgs &a, const Step &step, const Worker &worker) {
  auto **act = reinterpret_cast<const uint8_t **>(worker.scratch);
  std::byte *rows = worker.scratch + kTokenTile * sizeof(*act);
  forHeadShare(
      a.w.outer, a.w.rows, kRowGrain, worker,
      [&](int64_t head, int64_t begin, int64_t end) {
        const float *x = a.x + head * (a.w.cols + a.tail);
        float *out = a.out + head * (a.w.rows + a.tail);
        const uint8_t *w =
            a.w.data + head * a.w.outerStride + begin * a.w.rowStride;
        forTiles({0, step.tokens}, kTokenTile, [&](int64_t t, int64_t tokens) {
          encodeRows<S>(a.encoding, x + t * a.xStride, a.xStride, tokens,
                        a.w.cols, rows, act);
          a.gemm(w, a.w.rowStride, end - begin, act, tokens, a.w.cols,
                 out + t * a.outStride + begin, a.outStride);
        });
        if (end == a.w.rows)
          copyTails(x + a.w.cols, a.xStride, out + a.w.rows, a.outStride,
                    step.tokens, a.tail);
      });
}

} // namespace moek

#endif // MOE_KERNELS_CPU_HEADLINEAR_H
