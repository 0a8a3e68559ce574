#include "runtime/base/MappedFile.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

namespace {
/// Closes a descriptor at the end of its scope.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

Status ioError(const std::string &path, const char *what, int error) {
  return Status(StatusCode::Io,
                path + ": " + what + ": " + std::strerror(error));
}
} // namespace

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return ioError(path, "cannot open", errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0)
    return ioError(path, "cannot stat", errno);
  if (S_ISDIR(info.st_mode))
    return Status(StatusCode::Io, path + ": is a directory, not a file");
  if (!S_ISREG(info.st_mode))
    return Status(StatusCode::Io, path + ": is not a regular file");

  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = static_cast<size_t>(info.st_size);
  if (mapped.size_ == 0)
    return mapped;
  void *data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED)
    return ioError(path, "cannot map", errno);
  mapped.data_ = static_cast<const uint8_t *>(data);
  return mapped;
}

Status MappedFile::copyToMemory() {
  if (size_ == 0)
    return Status::ok();
  Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return ioError(path_, "cannot open", errno);
  uint64_t available = hostMemoryBytes(); // 0 where the system does not tell
  void *copy = MAP_FAILED;
  if (available == 0 || size_ <= available)
    copy = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  path_ + ": a copy does not fit into memory (" +
                      humanBytes(double(size_)) + " of " +
                      humanBytes(double(available)) + ")");
  // A wish: without huge pages the copy is as good as memory gets here.
  (void)::madvise(copy, size_, MADV_HUGEPAGE);
  for (size_t done = 0; done < size_;) {
    ssize_t got = ::pread(file.fd, static_cast<uint8_t *>(copy) + done,
                          size_ - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      Status status = got < 0 ? ioError(path_, "cannot read", errno)
                              : Status(StatusCode::Io,
                                       path_ + ": became shorter while read");
      ::munmap(copy, size_);
      return status;
    }
    done += static_cast<size_t>(got);
  }
  (void)::mprotect(copy, size_, PROT_READ);
  ::munmap(const_cast<uint8_t *>(data_), size_);
  data_ = static_cast<const uint8_t *>(copy);
  return Status::ok();
}

MappedFile::MappedFile(MappedFile &&other) noexcept {
  *this = std::move(other);
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<uint8_t *>(data_), size_);
}

void installBusHandler() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    static constexpr char message[] =
        "error: a mapped model or weights file became shorter while it was in "
        "use, or its disk failed; restore the file and run again\n";
    (void)!::write(STDERR_FILENO, message, sizeof(message) - 1);
    ::_exit(exitCode(StatusCode::Io));
  };
  ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace moert
