#include "runtime/base/OutputPlace.h"

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace moert {

namespace {
Status cannotWrite(const std::string &path, int error) {
  return Status(StatusCode::Io,
                path + ": cannot write: " + std::strerror(error));
}

/// Returns N if the entry `name` of `folder` is descriptor N of this process.
std::optional<int> descriptorIn(const std::string &folder,
                                const std::string &name) {
  std::unique_ptr<char, void (*)(void *)> real(
      ::realpath(folder.c_str(), nullptr), std::free);
  if (!real || real.get() != "/proc/" + std::to_string(::getpid()) + "/fd")
    return std::nullopt;
  int number = -1;
  const char *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || rest != end || number < 0)
    return std::nullopt;
  return number;
}

/// Returns the target of a symbolic link, relative to the working directory.
StatusOr<std::string> followed(const OutputPlace &link) {
  char target[PATH_MAX];
  ssize_t bytes = ::readlink(link.path.c_str(), target, sizeof(target));
  if (bytes < 0)
    return cannotWrite(link.path, errno);
  std::string text(target, size_t(bytes));
  return text.starts_with('/') ? text : link.folder() + "/" + text;
}
} // namespace

bool OutputPlace::isStream() const {
  return isDescriptor() || (existing && (S_ISFIFO(existing->st_mode) ||
                                         S_ISCHR(existing->st_mode)));
}

std::string OutputPlace::folder() const {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string OutputPlace::name() const {
  return path.substr(path.find_last_of('/') + 1);
}

StatusOr<OutputPlace> OutputPlace::find(const std::string &path) {
  if (path.empty())
    return Status(StatusCode::Usage, "the name of an output is empty");
  OutputPlace place;
  place.path = path;
  if (path == "-")
    place.descriptor = STDOUT_FILENO;
  // The limit is that of Linux.
  for (int links = 0; !place.isDescriptor(); ++links) {
    struct stat info;
    if (::lstat(place.path.c_str(), &info) != 0) {
      if (errno != ENOENT || ::stat(place.folder().c_str(), &info) != 0)
        return cannotWrite(path, errno);
      return place;
    }
    if (!S_ISLNK(info.st_mode)) {
      place.existing = info;
      return place;
    }
    if (links == 40)
      return cannotWrite(path, ELOOP);
    if (auto number = descriptorIn(place.folder(), place.name())) {
      place.descriptor = *number;
      break;
    }
    StatusOr<std::string> next = followed(place);
    if (!next)
      return next.status();
    place.path = *std::move(next);
  }
  place.path.clear();
  place.existing.emplace();
  if (::fstat(place.descriptor, &*place.existing) != 0)
    return cannotWrite(path, errno);
  return place;
}

} // namespace moert
