#include "runtime/base/InputFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace moert {

namespace {
Status ioError(const std::string &path, const char *what, int error) {
  return Status(StatusCode::Io,
                path + ": " + what + ": " + std::strerror(error));
}
} // namespace

StatusOr<InputFile> InputFile::open(const std::string &path) {
  InputFile file;
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0)
    return ioError(path, "cannot open", errno);
  struct stat info;
  if (::fstat(file.fd_, &info) != 0)
    return ioError(path, "cannot stat", errno);
  if (S_ISDIR(info.st_mode))
    return Status(StatusCode::Io, path + ": is a directory, not a file");
  if (!S_ISREG(info.st_mode))
    return Status(StatusCode::Io, path + ": is not a regular file");
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.path_ = path;
  return file;
}

Status InputFile::readAt(uint64_t offset, void *out, uint64_t bytes) const {
  auto *to = static_cast<uint8_t *>(out);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t got = ::pread(fd_, to + done, bytes - done,
                          static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return ioError(path_, "cannot read", errno);
    if (got == 0)
      return Status(StatusCode::Io,
                    path_ + ": became shorter while it was read");
    done += static_cast<uint64_t>(got);
  }
  return Status::ok();
}

bool InputFile::isHole(uint64_t offset, uint64_t bytes) const {
  off_t data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  // ENXIO means that there is only a hole up to the end. The end is checked,
  // because a file that has become shorter has no holes there.
  if (data < 0)
    return errno == ENXIO &&
           ::lseek(fd_, 0, SEEK_END) >= static_cast<off_t>(offset + bytes);
  return static_cast<uint64_t>(data) >= offset + bytes;
}

InputFile::InputFile(InputFile &&other) noexcept { *this = std::move(other); }

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

} // namespace moert
