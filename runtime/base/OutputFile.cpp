#include "runtime/base/OutputFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

namespace moert {

namespace {
/// Gives the new file the mode, owner and group of the replaced one, as far as
/// the user may set them. If the group differs, it gets no more rights than
/// others.
void copyOwnership(const struct stat &old, int fd) {
  (void)!::fchown(fd, old.st_uid, old.st_gid);
  struct stat info;
  if (::fstat(fd, &info) != 0)
    return;
  if (info.st_gid != old.st_gid) {
    (void)!::fchown(fd, uid_t(-1), old.st_gid);
    (void)!::fstat(fd, &info);
  }
  mode_t mode = old.st_mode & 07777;
  if (info.st_uid != old.st_uid)
    mode &= 0777;
  if (info.st_gid != old.st_gid)
    mode &= 0707 | (mode & 07) << 3;
  (void)!::fchmod(fd, mode);
}
} // namespace

Status OutputFile::failure(const char *what) const {
  return Status(StatusCode::Io,
                path_ + ": " + what + ": " + std::strerror(errno));
}

StatusOr<OutputFile> OutputFile::create(OutputTarget target, Content content) {
  OutputFile file(std::move(target));
  const std::string &path = file.target_.path();
  file.path_ = path == "-" ? "standard output" : path;
  MOE_ASSIGN_OR_RETURN(file.place_, file.target_.check());
  MOE_RETURN_IF_ERROR(file.place_.isStream() ? file.openStream()
                                             : file.openTemporary());
  if (content == Content::Binary && ::isatty(file.fd_))
    return Status(StatusCode::Usage,
                  file.path_ + ": is a terminal, and what would be written "
                               "is not text; redirect it, or name a file");
  return file;
}

Status OutputFile::openStream() {
  fd_ = place_.isDescriptor()
            ? ::fcntl(place_.descriptor, F_DUPFD_CLOEXEC, 0)
            : ::open(place_.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (fd_ >= 0)
    return Status::ok();
  return errno == EINTR ? Status(StatusCode::Cancelled, "interrupted")
                        : failure("cannot write");
}

Status OutputFile::openTemporary() {
  if (place_.existing && !S_ISREG(place_.existing->st_mode)) {
    if (S_ISDIR(place_.existing->st_mode)) {
      errno = EISDIR;
      return failure("cannot write");
    }
    return Status(StatusCode::Io,
                  path_ + (S_ISSOCK(place_.existing->st_mode)
                               ? ": is a socket, which is not written to"
                               : ": is a block device, which is not written "
                                 "to"));
  }
  // Checked because renaming would bypass the file's write protection.
  if (place_.existing &&
      ::faccessat(AT_FDCWD, place_.path.c_str(), W_OK, AT_EACCESS) != 0)
    return failure("cannot write");
  removeStaleTemporaries(place_.folder(), place_.name());
  // A file that replaces another is private until it has that file's mode.
  mode_t mode = place_.existing || target_.isForOwnerOnly() ? 0600 : 0666;
  for (int attempt = 0; attempt < 16; ++attempt) {
    temporary_ = place_.folder() + "/" + temporaryName(place_.name());
    removed_ = RemovedOnSignal(temporary_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 mode);
    if (fd_ < 0 && errno == EEXIST)
      continue;
    if (fd_ < 0)
      break;
    // A process that removes stale files may have removed this one before it
    // was locked. On file systems without locks, such as some network file
    // systems, nobody removes stale files.
    struct stat info;
    bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && ::fstat(fd_, &info) == 0 && info.st_nlink == 1)
      return Status::ok();
    ::close(std::exchange(fd_, -1));
    ::unlink(temporary_.c_str());
    errno = EBUSY;
  }
  return failure("cannot write");
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : OutputFile(other.target_) {
  *this = std::move(other);
}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(target_, other.target_);
  std::swap(path_, other.path_);
  std::swap(place_, other.place_);
  std::swap(temporary_, other.temporary_);
  std::swap(removed_, other.removed_);
  std::swap(fd_, other.fd_);
  std::swap(committed_, other.committed_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ < 0)
    return;
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
  ::close(fd_);
}

Status OutputFile::write(const void *data, size_t bytes) {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd_, next, bytes);
    if (written < 0 && errno == EAGAIN) {
      // Another process has made the stream non-blocking.
      struct pollfd ready = {fd_, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
      continue;
    }
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
  if (temporary_.empty())
    return Status(StatusCode::Usage,
                  path_ + ": this output is not written in order, so that it "
                          "needs a regular file");
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
  // Without this, the system would collect a tenth of the memory before it
  // began to write. It is only a hint: errors are reported by commit().
  (void)::sync_file_range(fd_, static_cast<off_t>(offset),
                          static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
  return Status::ok();
}

Status OutputFile::reserve(uint64_t bytes) const {
  if (temporary_.empty() || bytes == 0 ||
      ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0 ||
      errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)
    return Status::ok();
  return failure("cannot reserve space");
}

Status OutputFile::flush() const {
  return ::fsync(fd_) == 0 ? Status::ok() : failure("cannot write");
}

Status OutputFile::replace(const std::string &path) {
  // The state is read again, because it may have changed since create().
  struct stat old;
  if (::lstat(place_.path.c_str(), &old) == 0) {
    if (!S_ISREG(old.st_mode))
      return Status(StatusCode::Io,
                    path_ + ": is no longer a regular file and is left "
                            "unchanged");
    MOE_RETURN_IF_ERROR(recheck());
    if (!target_.isForOwnerOnly())
      copyOwnership(old, fd_);
  }
  MOE_RETURN_IF_ERROR(flush());
  if (::rename(temporary_.c_str(), path.c_str()) != 0)
    return failure("cannot write");
  committed_ = true;
  temporary_.clear();
  removed_ = {};
  return flushFolder(place_.folder());
}

Status flushFolder(const std::string &folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return Status::ok(); // Without a readable folder nothing can be removed.
  int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Not every file system supports this.
  if (error == 0 || error == EINVAL || error == EBADF || error == ENOTSUP)
    return Status::ok();
  return Status(StatusCode::Io,
                folder + ": cannot write: " + std::strerror(error));
}

Status writeOutput(OutputTarget target, std::string_view bytes,
                   OutputFile::Content content) {
  MOE_ASSIGN_OR_RETURN(OutputFile file,
                       OutputFile::create(std::move(target), content));
  MOE_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
  return file.commit();
}

Status OutputFile::commit() { return commitAs(place_.path); }

Status OutputFile::commitAs(const std::string &path) {
  if (!temporary_.empty())
    MOE_RETURN_IF_ERROR(replace(path));
  committed_ = true;
  int fd = std::exchange(fd_, -1);
  return ::close(fd) == 0 ? Status::ok() : failure("cannot write");
}

} // namespace moert
