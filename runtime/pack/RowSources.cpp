#include "runtime/pack/RowSources.h"

#include "kernels/quant/Dequant.h"
#include "kernels/quant/Quantize.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>

namespace moert {

StatusOr<ModelFile> ModelFile::open(const std::string &path, uint64_t bytes,
                                    bool forget) {
  MOE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  if (file.size() != bytes)
    return Status(StatusCode::Io,
                  fmt::format("{}: has {} bytes, but had {} when it was "
                              "imported",
                              path, file.size(), bytes));
  auto shared = std::make_shared<const InputFile>(std::move(file));
  ModelFile model(*shared, forget);
  model.file_ = std::move(shared);
  return model;
}

ModelFile::ModelFile(const InputFile &file, bool forget)
    : file_(std::shared_ptr<const InputFile>(), &file), forget_(forget) {
  (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

Status ModelFile::read(uint64_t offset, uint64_t bytes, uint8_t *out) const {
  MOE_RETURN_IF_ERROR(file_->readAt(offset, out, bytes));
  if (hasher_)
    hasher_->add(offset, {out, bytes});
  return Status::ok();
}

void ModelFile::forget(uint64_t offset, uint64_t bytes) const {
  if (forget_)
    (void)::posix_fadvise(file_->descriptor(), off_t(offset), off_t(bytes),
                          POSIX_FADV_DONTNEED);
}

Status ModelRows::read(int64_t matrix, int64_t first, int64_t count,
                       uint8_t *out) const {
  uint64_t rowBytes = moek::rowBytes(view_.format, uint64_t(view_.cols));
  uint64_t at = offset_ + uint64_t(matrix * view_.outerStride) +
                uint64_t(first * view_.rowStride);
  if (uint64_t(view_.rowStride) == rowBytes)
    return file_.read(at, uint64_t(count) * rowBytes, out);
  for (int64_t r = 0; r < count; ++r)
    MOE_RETURN_IF_ERROR(file_.read(at + uint64_t(r * view_.rowStride), rowBytes,
                                   out + uint64_t(r) * rowBytes));
  return Status::ok();
}

void ModelRows::forget(int64_t matrix, int64_t first, int64_t count) const {
  file_.forget(offset_ + uint64_t(matrix * view_.outerStride) +
                   uint64_t(first * view_.rowStride),
               uint64_t(count * view_.rowStride));
}

Status StackedRows::add(std::unique_ptr<RowSource> source, int64_t outer,
                        int64_t rows, moek::Format format) {
  if (format != format_ &&
      !(moek::formatInfo(format).hasKernels && moek::canQuantize(format_)))
    return Status(StatusCode::Unsupported,
                  fmt::format("cannot convert weights of format {} to {}",
                              moek::formatInfo(format).name,
                              moek::formatInfo(format_).name));
  int64_t first = parts_.empty() ? 0 : parts_.back().end;
  parts_.push_back(
      {std::move(source), first, first + outer * rows, rows, format});
  return Status::ok();
}

template <class Visit>
Status StackedRows::forEachPart(int64_t matrix, int64_t first, int64_t count,
                                Visit visit) const {
  int64_t row = matrix * perMatrix_ + first;
  auto part = std::ranges::upper_bound(parts_, row, {}, &Part::end);
  while (count > 0) {
    // Rows of one matrix of one part are read together.
    int64_t inMatrix = (row - part->first) % part->perMatrix;
    int64_t some = std::min(count, part->perMatrix - inMatrix);
    MOE_RETURN_IF_ERROR(visit(*part, row - part->first, some));
    row += some;
    count -= some;
    if (row == part->end)
      ++part;
  }
  return Status::ok();
}

Status StackedRows::read(int64_t matrix, int64_t first, int64_t count,
                         uint8_t *out) const {
  return forEachPart(
      matrix, first, count, [&](const Part &part, int64_t row, int64_t some) {
        Status status = readPart(part, row, some, out);
        out += uint64_t(some) * moek::rowBytes(format_, uint64_t(cols_));
        return status;
      });
}

void StackedRows::forget(int64_t matrix, int64_t first, int64_t count) const {
  (void)forEachPart(
      matrix, first, count, [&](const Part &part, int64_t row, int64_t some) {
        part.source->forget(row / part.perMatrix, row % part.perMatrix, some);
        return Status::ok();
      });
}

Status StackedRows::readPart(const Part &part, int64_t row, int64_t count,
                             uint8_t *out) const {
  int64_t matrix = row / part.perMatrix, first = row % part.perMatrix;
  if (part.format == format_)
    return part.source->read(matrix, first, count, out);
  uint64_t fromBytes = moek::rowBytes(part.format, uint64_t(cols_));
  uint64_t toBytes = moek::rowBytes(format_, uint64_t(cols_));
  std::vector<uint8_t> rows(uint64_t(count) * fromBytes);
  std::vector<float> floats(static_cast<size_t>(cols_));
  MOE_RETURN_IF_ERROR(part.source->read(matrix, first, count, rows.data()));
  for (int64_t r = 0; r < count; ++r) {
    // add() accepted both formats.
    (void)moek::dequantizeRow(part.format,
                              rows.data() + uint64_t(r) * fromBytes, cols_,
                              floats.data());
    (void)moek::quantizeRow(format_, floats.data(), cols_,
                            out + uint64_t(r) * toBytes);
  }
  return Status::ok();
}

} // namespace moert
