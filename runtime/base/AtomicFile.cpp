#include "runtime/base/AtomicFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

Status AtomicFile::failure(const char *what) const {
  return Status(StatusCode::Io,
                path_ + ": " + what + ": " + std::strerror(errno));
}

StatusOr<AtomicFile> AtomicFile::create(const std::string &path) {
  AtomicFile file;
  file.path_ = path;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    return file.failure("cannot write");
  }
  file.temporary_ = path + ".tmp." + std::to_string(::getpid());
  file.fd_ = ::open(file.temporary_.c_str(),
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd_ < 0)
    return file.failure("cannot write");
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept {
  *this = std::move(other);
}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(const void *data, size_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd_, next, bytes);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure("cannot write");
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0)
    return failure("cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return failure("cannot write");
  int fd = std::exchange(fd_, -1);
  return ::close(fd) == 0 ? Status::ok() : failure("cannot write");
}

} // namespace moert
