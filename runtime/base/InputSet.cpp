#include "runtime/base/InputSet.h"

#include <fmt/format.h>
#include <unistd.h>

namespace moert {

std::optional<InputSet::Identity>
InputSet::identityOf(const OutputPlace &place) {
  struct stat folder;
  if (place.existing) {
    mode_t mode = place.existing->st_mode;
    if (S_ISREG(mode) || S_ISFIFO(mode))
      return Identity{place.existing->st_dev, place.existing->st_ino, ""};
  } else if (::stat(place.folder().c_str(), &folder) == 0) {
    return Identity{folder.st_dev, folder.st_ino, place.name()};
  }
  return std::nullopt;
}

void InputSet::add(std::string role, const std::string &path) {
  OutputPlace place;
  if (path == "-") {
    place.descriptor = STDIN_FILENO;
    place.existing.emplace();
    if (::fstat(STDIN_FILENO, &*place.existing) != 0)
      return;
  } else if (StatusOr<OutputPlace> found = OutputPlace::find(path)) {
    place = *std::move(found);
  } else {
    return;
  }
  if (auto identity = identityOf(place))
    inputs_.push_back({*std::move(identity), std::move(role),
                       path == "-" ? "standard input" : path});
}

Status InputSet::refuse(const std::string &output,
                        const OutputPlace &place) const {
  std::optional<Identity> identity = identityOf(place);
  if (!identity)
    return Status::ok();
  for (const Input &input : inputs_)
    if (input.identity == *identity)
      return Status(StatusCode::Usage,
                    fmt::format("{}: writing there would destroy {} {}; choose "
                                "another output",
                                output == "-" ? "standard output" : output,
                                input.role, input.path));
  return Status::ok();
}

} // namespace moert
