#include "tools/common/Output.h"

#include "runtime/base/Text.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <unistd.h>

using moert::Status;
using moert::StatusCode;

namespace moetool {

namespace {
/// A standard descriptor that remembers why writing to it failed first. After
/// that it takes everything and writes nothing.
class StandardStream {
public:
  /// Text is collected up to `room` bytes.
  StandardStream(int fd, const char *name, size_t room)
      : fd_(fd), name_(name), room_(room) {}

  void write(std::string_view text) {
    pending_ += text;
    if (pending_.size() > room_)
      flush();
  }

  void flush() {
    std::string_view rest = pending_;
    while (error_ == 0 && !rest.empty()) {
      ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written >= 0) {
        rest.remove_prefix(static_cast<size_t>(written));
      } else if (errno == EAGAIN) {
        // Who started us may have made the descriptor non-blocking.
        pollfd ready = {fd_, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    written_ = written_ || !pending_.empty();
    pending_.clear();
  }

  /// Some file systems tell only at a close that a write failed.
  void close() {
    flush();
    if (error_ != 0 || !written_)
      return;
    int copy = ::dup(fd_);
    if (copy >= 0 && ::close(copy) != 0 && errno != EINTR)
      error_ = errno;
  }

  Status status() const {
    return error_ == 0 ? Status::ok()
                       : Status(StatusCode::Io, std::string(name_) + ": " +
                                                    std::strerror(error_));
  }

  /// Whether it is a pipe whose reader has what it wanted, as head(1) has.
  bool isLeft() const {
    pollfd writable = {fd_, POLLOUT, 0};
    return error_ == EPIPE ||
           (::poll(&writable, 1, 0) == 1 && (writable.revents & POLLERR));
  }

private:
  int fd_;
  const char *name_;
  size_t room_;
  std::string pending_;
  bool written_ = false;
  int error_ = 0;
};

/// As global as the descriptors that they stand for, and never destroyed: what
/// fails while the process ends is reported too.
StandardStream &standardOutput() {
  static auto *stream =
      new StandardStream(STDOUT_FILENO, "standard output", 1 << 16);
  return *stream;
}
StandardStream &standardError() {
  static auto *stream = new StandardStream(STDERR_FILENO, "standard error", 0);
  return *stream;
}

/// Of the tools, "" if the shell finds them; else it ends in a slash.
std::string &toolFolder() {
  static std::string folder;
  return folder;
}

/// Whether escape sequences mean something to a terminal here.
bool hasEscapes() {
  const char *term = std::getenv("TERM");
  return term && *term && std::string_view(term) != "dumb";
}

/// What the program itself says may drive the terminal.
void noteRaw(std::string_view text) {
  // In the order in which things were said, where both go to one place.
  standardOutput().flush();
  standardError().write(text);
}
} // namespace

Status claimStandardStreams() {
  // A pipe that nobody reads and a file beyond its limit are errors of a write,
  // so that there is a message and nothing is left behind.
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
      continue;
    // Open the wrong way round: using it goes on failing as if it were closed.
    // open() takes the lowest free number, which is this one.
    int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", flags) != fd)
      return Status(StatusCode::Io,
                    std::string("/dev/null: cannot open in place of a closed "
                                "standard stream: ") +
                        std::strerror(errno));
  }
  return Status::ok();
}

void setCalledAs(std::string_view argv0) {
  std::string folder(argv0.substr(0, argv0.rfind('/') + 1));
  // Commands that are suggested are moec's; moert may be elsewhere alone.
  if (::access((folder + "moec").c_str(), X_OK) == 0)
    toolFolder() = folder;
}

std::string toolPath(std::string_view name) {
  return toolFolder() + std::string(name);
}

std::string pasteable(std::string_view message) {
  return withToolFolder(message, toolFolder());
}

void printText(std::string_view text) {
  standardOutput().write(moert::terminalSafe(text));
}

void printBytes(std::string_view bytes) {
  if (::isatty(STDOUT_FILENO))
    printText(bytes);
  else
    standardOutput().write(bytes);
}

void setDim(bool dim) {
  if (::isatty(STDOUT_FILENO) && colourAllowed())
    standardOutput().write(dim ? "\033[2m" : "\033[22m");
}

void printJson(std::string_view json) {
  standardOutput().write(moert::terminalSafeJson(json));
}

void noteText(std::string_view text) {
  noteRaw(moert::terminalSafe(pasteable(text)));
}

Status flush() {
  standardOutput().flush();
  return standardOutput().status();
}

int finish(Status status) {
  // What a shell reports of a program that a pipe without a reader has ended.
  constexpr int leftCode = 128 + SIGPIPE;
  standardOutput().close();
  // A command that ends because nobody reads on fails with the stream's error.
  bool isOfOutput = status.code() == StatusCode::Io &&
                    status.message().starts_with("standard output: ");
  bool isLost = !standardOutput().status().isOk();
  if ((isOfOutput || (status.isOk() && isLost)) && standardOutput().isLeft())
    return leftCode;
  if (status.isOk())
    status = standardOutput().status();
  if (!status.isOk())
    printError(status);
  standardError().close();
  if (status.isOk() && !standardError().status().isOk() &&
      standardError().isLeft())
    return leftCode;
  if (status.isOk())
    status = standardError().status();
  return moert::exitCode(status.code());
}

bool stderrIsTerminal() { return ::isatty(STDERR_FILENO) == 1 && hasEscapes(); }

bool colourAllowed() {
  const char *noColor = std::getenv("NO_COLOR");
  return stderrIsTerminal() && (!noColor || !*noColor);
}

void setBracketedPaste(bool bracketed) {
  if (::isatty(STDOUT_FILENO) != 1 || !hasEscapes())
    return;
  standardOutput().write(bracketed ? "\033[?2004h" : "\033[?2004l");
  standardOutput().flush();
}

void printError(const Status &status) {
  noteRaw((colourAllowed() ? "\033[1;31merror:\033[0m " : "error: ") +
          moert::terminalSafe(pasteable(fullMessage(status))) + "\n");
}

void redrawLine(std::string_view text) {
  noteRaw("\r\033[K" + moert::terminalSafe(text));
}

} // namespace moetool
