#include "compiler/Pack/RowSources.h"

#include <fcntl.h>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

StatusOr<ModelFile> ModelFile::open(const std::string &path, uint64_t bytes,
                                    bool forget) {
  MOE_ASSIGN_OR_RETURN(moert::InputFile file, moert::InputFile::open(path));
  if (file.size() != bytes)
    return Status(StatusCode::Io,
                  fmt::format("{}: has {} bytes, but had {} when it was "
                              "imported",
                              path, file.size(), bytes));
  (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return ModelFile(std::move(file), forget);
}

Status ModelFile::read(uint64_t offset, uint64_t bytes, uint8_t *out) const {
  MOE_RETURN_IF_ERROR(file_.readAt(offset, out, bytes));
  if (forget_)
    (void)::posix_fadvise(file_.descriptor(), off_t(offset), off_t(bytes),
                          POSIX_FADV_DONTNEED);
  return Status::ok();
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

} // namespace moec
