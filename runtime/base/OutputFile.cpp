#include "runtime/base/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

Status OutputFile::failure(const char *what) const {
  return Status(StatusCode::Io,
                path_ + ": " + what + ": " + std::strerror(errno));
}

void OutputFile::removeStale(const std::filesystem::path &path) {
  std::error_code error;
  std::string prefix = path.filename().string() + ".tmp.";
  std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix))
      continue;
    int fd = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
      continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry->path().c_str());
    ::close(fd);
  }
}

StatusOr<OutputFile> OutputFile::create(const std::string &path) {
  OutputFile file;
  file.path_ = path;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    return file.failure("cannot write");
  }
  removeStale(path);
  file.temporary_ = path + ".tmp." + std::to_string(::getpid());
  file.fd_ = ::open(file.temporary_.c_str(),
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd_ < 0)
    return file.failure("cannot write");
  // Without locks, on some network file systems, the file only risks to be
  // taken for a stale one.
  (void)::flock(file.fd_, LOCK_EX | LOCK_NB);
  return file;
}

OutputFile::OutputFile(OutputFile &&other) noexcept {
  *this = std::move(other);
}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::write(const void *data, size_t bytes) {
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

Status OutputFile::writeAt(uint64_t offset, const void *data,
                           size_t bytes) const {
  const char *next = static_cast<const char *>(data);
  auto at = static_cast<off_t>(offset);
  for (size_t left = bytes; left > 0;) {
    ssize_t written = ::pwrite(fd_, next, left, at);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure("cannot write");
    next += written;
    at += written;
    left -= static_cast<size_t>(written);
  }
  // Else the system would collect a tenth of the memory before it began. Only
  // a hint: what fails is reported by commit().
  (void)::sync_file_range(fd_, static_cast<off_t>(offset),
                          static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
  return Status::ok();
}

Status OutputFile::reserve(uint64_t bytes) const {
  if (bytes == 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0 ||
      errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)
    return Status::ok();
  return failure("cannot reserve space");
}

Status OutputFile::commit() {
  if (::fsync(fd_) != 0)
    return failure("cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return failure("cannot write");
  int fd = std::exchange(fd_, -1);
  return ::close(fd) == 0 ? Status::ok() : failure("cannot write");
}

} // namespace moert
