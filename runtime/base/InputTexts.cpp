#include "runtime/base/InputTexts.h"

#include "runtime/base/ReadInput.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

namespace {
/// Standard input is a stream even if it is a regular file: the bytes read so
/// far lie before its position.
std::optional<std::pair<dev_t, ino_t>> streamOf(const std::string &path) {
  struct stat info;
  bool isStandardInput = path == "-";
  int failed = isStandardInput ? ::fstat(STDIN_FILENO, &info)
                               : ::stat(path.c_str(), &info);
  if (failed != 0 || (S_ISREG(info.st_mode) && !isStandardInput))
    return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}
} // namespace

StatusOr<const std::string *> InputTexts::read(const std::string &role,
                                               const std::string &path,
                                               uint64_t most) {
  auto stream = streamOf(path);
  for (const Text &text : texts_) {
    if (text.role == role && text.path == path)
      return &text.text;
    if (stream && text.stream == stream)
      return Status(StatusCode::Usage,
                    fmt::format("{}: is read as {} already and has its bytes "
                                "only once; give {} as a file",
                                inputName(path), text.role, role));
  }
  MOE_ASSIGN_OR_RETURN(std::string text, readInput(path, most));
  texts_.push_back({role, path, std::move(text), stream});
  return &texts_.back().text;
}

} // namespace moert
