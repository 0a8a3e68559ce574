#include "compiler/Serialize/FoldQuery.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Half.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <vector>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {

/// Rows `first` ... of a matrix as floats.
void dequantize(const moek::WeightView &w, const uint8_t *firstRow,
                int64_t rows, std::vector<float> &out) {
  out.resize(rows * w.cols);
  for (int64_t r = 0; r < rows; ++r)
    // The format was checked; it has a dequantiser.
    (void)moek::dequantizeRow(w.format, firstRow + r * w.rowStride, w.cols,
                              out.data() + r * w.cols);
}

/// Stores a row in the result's format.
void store(moek::Format format, const float *row, int64_t cols, uint8_t *out) {
  if (format == moek::Format::F32) {
    std::memcpy(out, row, cols * sizeof(float));
    return;
  }
  for (int64_t c = 0; c < cols; ++c) {
    uint16_t bits = moek::floatToBf16(row[c]);
    std::memcpy(out + 2 * c, &bits, sizeof bits);
  }
}

/// One head of the result.
void foldHead(const FoldQuery &fold, int64_t head, uint8_t *out) {
  int64_t cols = fold.wq.cols, rowBytes = moek::rowBytes(fold.format, cols);
  std::vector<float> q, k;
  dequantize(fold.wq,
             fold.wq.data + head * (fold.nope + fold.rope) * fold.wq.rowStride,
             fold.nope + fold.rope, q);
  dequantize(fold.wk, fold.wk.data + head * fold.wk.outerStride, fold.wk.rows,
             k);
  std::vector<double> sums(cols);
  std::vector<float> row(cols);
  for (int64_t l = 0; l < fold.latent; ++l, out += rowBytes) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t n = 0; n < fold.nope; ++n) {
      double factor =
          fold.transposed ? k[l * fold.nope + n] : k[n * fold.latent + l];
      const float *queryRow = q.data() + n * cols;
      for (int64_t c = 0; c < cols; ++c)
        sums[c] += factor * queryRow[c];
    }
    std::copy(sums.begin(), sums.end(), row.begin());
    store(fold.format, row.data(), cols, out);
  }
  for (int64_t r = 0; r < fold.rope; ++r, out += rowBytes)
    store(fold.format, q.data() + (fold.nope + r) * cols, cols, out);
}

} // namespace

Status foldQuery(const FoldQuery &fold,
                 const std::function<Status(std::span<const uint8_t>)> &write) {
  for (moek::Format format : {fold.wq.format, fold.wk.format})
    if (!moek::formatInfo(format).hasKernels)
      return Status(StatusCode::Unsupported,
                    fmt::format("cannot fold weights of format {}",
                                moek::formatInfo(format).name));
  if (fold.format != moek::Format::F32 && fold.format != moek::Format::BF16)
    return Status(StatusCode::Unsupported,
                  fmt::format("folded weights are F32 or BF16, not {}",
                              moek::formatInfo(fold.format).name));

  int64_t atOnce = std::max(1u, std::thread::hardware_concurrency());
  std::vector<uint8_t> bytes(atOnce * fold.headBytes());
  for (int64_t first = 0; first < fold.heads; first += atOnce) {
    int64_t count = std::min(atOnce, fold.heads - first);
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < count; ++i)
      threads.emplace_back(
          [&, i] { foldHead(fold, first + i, &bytes[i * fold.headBytes()]); });
    foldHead(fold, first, bytes.data());
    threads.clear(); // Joins.
    MOE_RETURN_IF_ERROR(
        write(std::span(bytes).first(count * fold.headBytes())));
  }
  return Status::ok();
}

} // namespace moec
