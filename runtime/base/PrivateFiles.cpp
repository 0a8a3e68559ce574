#include "runtime/base/PrivateFiles.h"

#include "runtime/base/ShellCommand.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace moert {

namespace fs = std::filesystem;

namespace {
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

Status failure(const std::string &path, std::string_view what) {
  return Status(StatusCode::Io,
                fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

Status isOpenToOthers(const std::string &path, std::string_view mode) {
  return Status(StatusCode::Io,
                fmt::format("{}: other users can read what clients sent; run: "
                            "chmod {} {}",
                            path, mode, shellPath(path)));
}

bool isAllOwn(const std::string &folder,
              const std::function<bool(std::string_view)> &isOwn) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (!isOwn(it->path().filename().string()))
      return false;
  return !error;
}
} // namespace

Status makePrivateFolder(const std::string &path,
                         const std::function<bool(std::string_view)> &isOwn) {
  std::error_code ignored;
  if (const fs::path above = fs::path(path).parent_path(); !above.empty())
    fs::create_directories(above, ignored);
  // A path may end with a slash.
  if (::mkdir(path.c_str(), S_IRWXU) == 0)
    return Status::ok();
  if (errno != EEXIST)
    return failure(path, "cannot be made");
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return failure(path, "cannot be used");
  if (!S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return failure(path, "cannot be used");
  }
  if ((info.st_mode & kOthers) == 0)
    return Status::ok();
  if (!isAllOwn(path, isOwn) ||
      ::chmod(path.c_str(), info.st_mode & S_IRWXU) != 0)
    return isOpenToOthers(path, "700");
  return Status::ok();
}

Status makePrivateFile(const std::string &path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return failure(path, "cannot be opened");
  struct stat info;
  const bool isPrivate =
      ::fstat(fd, &info) == 0 &&
      (!S_ISREG(info.st_mode) || (info.st_mode & kOthers) == 0 ||
       ::fchmod(fd, info.st_mode & ~kOthers & 07777) == 0);
  ::close(fd);
  return isPrivate ? Status::ok() : isOpenToOthers(path, "600");
}

} // namespace moert
