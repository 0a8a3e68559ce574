#include "compiler/Pack/FoldQuery.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Quantize.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

/// Dequantises `rows` rows of a matrix, from `firstRow` on, to floats.
void dequantize(const moek::WeightView &w, const uint8_t *firstRow,
                int64_t rows, std::vector<float> &out) {
  out.resize(rows * w.cols);
  for (int64_t r = 0; r < rows; ++r)
    // FoldQuery::check() accepted the format.
    (void)moek::dequantizeRow(w.format, firstRow + r * w.rowStride, w.cols,
                              out.data() + r * w.cols);
}

/// Writes rows first ... last - 1 of one head of the result to `out`.
void foldHead(const FoldQuery &fold, int64_t head, int64_t first, int64_t last,
              uint8_t *out) {
  int64_t cols = fold.wq.cols;
  std::vector<float> q, k;
  dequantize(fold.wq,
             fold.wq.data + head * (fold.nope + fold.rope) * fold.wq.rowStride,
             fold.nope + fold.rope, q);
  dequantize(fold.wk, fold.wk.data + head * fold.wk.outerStride, fold.wk.rows,
             k);
  std::vector<double> sums(cols);
  std::vector<float> row(cols);
  for (int64_t r = first; r < last; ++r, out += fold.rowBytes()) {
    if (r >= fold.latent) {
      (void)moek::quantizeRow(fold.format,
                              q.data() + (fold.nope + r - fold.latent) * cols,
                              cols, out);
      continue;
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t n = 0; n < fold.nope; ++n) {
      double factor =
          fold.transposed ? k[r * fold.nope + n] : k[n * fold.latent + r];
      const float *queryRow = q.data() + n * cols;
      for (int64_t c = 0; c < cols; ++c)
        sums[c] += factor * queryRow[c];
    }
    std::copy(sums.begin(), sums.end(), row.begin());
    (void)moek::quantizeRow(fold.format, row.data(), cols, out);
  }
}

} // namespace

Status FoldQuery::check() const {
  for (moek::Format read : {wq.format, wk.format})
    if (!moek::formatInfo(read).hasKernels)
      return Status(StatusCode::Unsupported,
                    fmt::format("cannot fold weights of format {}",
                                moek::formatInfo(read).name));
  if (format != moek::Format::F32 && format != moek::Format::BF16)
    return Status(StatusCode::Unsupported,
                  fmt::format("folded weights are F32 or BF16, not {}",
                              moek::formatInfo(format).name));
  return Status::ok();
}

void foldRows(const FoldQuery &fold, int64_t first, int64_t count,
              uint8_t *out) {
  for (int64_t row = first, end = first + count; row < end;) {
    int64_t head = row / fold.headRowsAsFloats(),
            begin = row % fold.headRowsAsFloats();
    int64_t rows = std::min(fold.headRowsAsFloats() - begin, end - row);
    foldHead(fold, head, begin, begin + rows, out);
    row += rows;
    out += rows * fold.rowBytes();
  }
}

} // namespace moec
