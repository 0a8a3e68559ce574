#include "compiler/Pack/Transpose.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Quantize.h"

#include <fmt/format.h>
#include <vector>

using moert::Status;
using moert::StatusCode;

namespace moec {

Status Transpose::check() const {
  if (!moek::formatInfo(from.format).hasKernels)
    return Status(StatusCode::Unsupported,
                  fmt::format("cannot transpose weights of format {}",
                              moek::formatInfo(from.format).name));
  if (!moek::canQuantize(format))
    return Status(StatusCode::Unsupported,
                  fmt::format("cannot write weights in format {}",
                              moek::formatInfo(format).name));
  return Status::ok();
}

void transposeRows(const Transpose &transpose, int64_t matrix, int64_t first,
                   int64_t count, uint8_t *out) {
  const moek::WeightView &from = transpose.from;
  // [count][from.rows]
  std::vector<float> columns(size_t(count * from.rows));
  std::vector<float> row(size_t(from.cols));
  for (int64_t r = 0; r < from.rows; ++r) {
    // Transpose::check() accepted both formats.
    (void)moek::dequantizeRow(
        from.format, from.data + matrix * from.outerStride + r * from.rowStride,
        from.cols, row.data());
    for (int64_t c = 0; c < count; ++c)
      columns[size_t(c * from.rows + r)] = row[size_t(first + c)];
  }
  for (int64_t c = 0; c < count; ++c)
    (void)moek::quantizeRow(transpose.format, columns.data() + c * from.rows,
                            from.rows, out + c * transpose.rowBytes());
}

} // namespace moec
