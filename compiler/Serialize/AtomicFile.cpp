#include "compiler/Serialize/AtomicFile.h"

#include "runtime/base/Text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

using moert::Status;
using moert::StatusCode;

namespace moec {

moert::StatusOr<AtomicFile> AtomicFile::create(const std::string &path) {
  std::string temporary = path + ".XXXXXX";
  int descriptor = mkstemp(temporary.data());
  if (descriptor < 0)
    return Status(StatusCode::Io, fmt::format("{}: cannot create: {}", path,
                                              std::strerror(errno)));
  // mkstemp makes files private; a plan has the rights of any new file.
  mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor, 0666 & ~mask);
  return AtomicFile(path, std::move(temporary), descriptor);
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0)
    return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

Status AtomicFile::failure(const char *what) const {
  int error = errno;
  std::string hint =
      error == ENOSPC ? "; free some space or write to another disk" : "";
  return Status(StatusCode::Io, fmt::format("{}: {}: {}{}", path_, what,
                                            std::strerror(error), hint));
}

Status AtomicFile::requireSpace(uint64_t bytes) const {
  struct statvfs info;
  if (fstatvfs(descriptor_, &info) != 0)
    return failure("cannot ask for free space");
  uint64_t available = uint64_t(info.f_bavail) * info.f_frsize;
  if (available < bytes)
    return Status(
        StatusCode::Io,
        fmt::format("{}: needs {}, but the disk has {} free; free some space, "
                    "write to another disk or use --weights=reference",
                    path_, moert::humanBytes(double(bytes)),
                    moert::humanBytes(double(available))));
  return Status::ok();
}

Status AtomicFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure("cannot write");
    bytes = bytes.subspan(size_t(written));
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  if (fsync(descriptor_) != 0)
    return failure("cannot write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return failure("cannot rename");
  close(std::exchange(descriptor_, -1));
  return Status::ok();
}

} // namespace moec
