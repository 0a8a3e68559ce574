#include "compiler/Pack/RowSources.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

StatusOr<ModelFile> ModelFile::open(const std::string &path, uint64_t bytes,
                                    bool forget) {
  ModelFile file;
  file.path_ = path;
  file.forget_ = forget;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (file.fd_ < 0 || ::fstat(file.fd_, &info) != 0)
    return Status(StatusCode::Io,
                  path + ": cannot open: " + std::strerror(errno));
  if (uint64_t(info.st_size) != bytes)
    return Status(StatusCode::Io,
                  fmt::format("{}: has {} bytes, but had {} when it was "
                              "imported",
                              path, info.st_size, bytes));
  (void)::posix_fadvise(file.fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  return file;
}

ModelFile::ModelFile(ModelFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), forget_(other.forget_),
      path_(std::move(other.path_)) {}

ModelFile::~ModelFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status ModelFile::read(uint64_t offset, uint64_t bytes, uint8_t *out) const {
  for (uint64_t done = 0; done < bytes;) {
    ssize_t got = ::pread(fd_, out + done, bytes - done, off_t(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return Status(StatusCode::Io,
                    path_ + ": cannot read: " + std::strerror(errno));
    if (got == 0)
      return Status(StatusCode::Io,
                    path_ + ": became shorter while it was read");
    done += uint64_t(got);
  }
  if (forget_)
    (void)::posix_fadvise(fd_, off_t(offset), off_t(bytes),
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
