#include "runtime/base/ReadInput.h"

#include "runtime/base/Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace moert {

std::string inputName(const std::string &path) {
  return path == "-" ? "standard input" : path;
}

StatusOr<std::string>
readInput(const std::string &path, uint64_t most,
          const std::function<Status(std::string_view)> &checkStart) {
  auto ioError = [&](const char *what) {
    return Status(StatusCode::Io,
                  inputName(path) + ": " + what + ": " + std::strerror(errno));
  };
  int fd = path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                       : ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return ioError("cannot open");
  std::string text;
  constexpr size_t piece = size_t(1) << 16;
  Status status;
  bool isChecked = !checkStart;
  for (size_t size = 0;;) {
    text.resize(size + piece);
    ssize_t got = ::read(fd, text.data() + size, piece);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      status = ioError("cannot read");
    size += got > 0 ? size_t(got) : 0;
    text.resize(size);
    if (size > most)
      status = Status(StatusCode::InvalidFile, inputName(path) + ": is over " +
                                                   humanBytes(double(most)) +
                                                   ", too long for what it "
                                                   "should be");
    if (!isChecked && status.isOk() && (size >= piece || got == 0)) {
      isChecked = true;
      status = checkStart(text);
    }
    if (got <= 0 || !status.isOk())
      break;
  }
  ::close(fd);
  if (!status.isOk())
    return status;
  return text;
}

} // namespace moert
