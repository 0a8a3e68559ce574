#include "tools/common/Output.h"

#include "runtime/base/Text.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <string>
#include <unistd.h>

using moert::Status;
using moert::StatusCode;

namespace moetool {

namespace {
/// A standard descriptor that remembers the first error of writing to it. After
/// an error it discards everything. Several threads may use it: a server's log
/// has lines of all of its threads.
class StandardStream {
public:
  /// Up to `room` bytes are buffered.
  StandardStream(int fd, const char *name, size_t room)
      : fd_(fd), name_(name), room_(room) {}

  void write(std::string_view text) {
    std::lock_guard lock(mutex_);
    pending_ += text;
    if (pending_.size() > room_)
      flushLocked();
  }

  void flush() {
    std::lock_guard lock(mutex_);
    flushLocked();
  }

  /// Some file systems report failed writes only when a file is closed.
  void close() {
    std::lock_guard lock(mutex_);
    flushLocked();
    if (error_ != 0 || !written_)
      return;
    int copy = ::dup(fd_);
    if (copy >= 0 && ::close(copy) != 0 && errno != EINTR)
      error_ = errno;
  }

  Status status() const {
    std::lock_guard lock(mutex_);
    return error_ == 0 ? Status::ok()
                       : Status(StatusCode::Io, std::string(name_) + ": " +
                                                    std::strerror(error_));
  }

  /// Returns whether this is a pipe whose reader has gone, such as head(1).
  bool isAbandonedPipe() const {
    std::lock_guard lock(mutex_);
    pollfd writable = {fd_, POLLOUT, 0};
    return error_ == EPIPE ||
           (::poll(&writable, 1, 0) == 1 && (writable.revents & POLLERR));
  }

private:
  void flushLocked() {
    std::string_view rest = pending_;
    while (error_ == 0 && !rest.empty()) {
      ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written >= 0) {
        rest.remove_prefix(static_cast<size_t>(written));
      } else if (errno == EAGAIN) {
        // The parent process may have made the descriptor non-blocking.
        pollfd ready = {fd_, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    written_ = written_ || !pending_.empty();
    pending_.clear();
  }

  mutable std::mutex mutex_;
  int fd_;
  const char *name_;
  size_t room_;
  std::string pending_;
  bool written_ = false;
  int error_ = 0;
};

/// The streams are global, like their descriptors, and are never destroyed, so
/// that errors at the end of the process are reported, too.
StandardStream &standardOutput() {
  static auto *stream =
      new StandardStream(STDOUT_FILENO, "standard output", 1 << 16);
  return *stream;
}
StandardStream &standardError() {
  static auto *stream = new StandardStream(STDERR_FILENO, "standard error", 0);
  return *stream;
}

/// Folder of the tools with a slash at its end; "" if the shell finds the
/// tools.
std::string &toolFolder() {
  static std::string folder;
  return folder;
}

/// Returns whether the terminal understands escape sequences.
bool hasEscapes() {
  const char *term = std::getenv("TERM");
  return term && *term && std::string_view(term) != "dumb";
}

/// Prints without escaping: the program's own text may control the terminal.
void noteUnescaped(std::string_view text) {
  // Keeps the order of output if both streams go to the same place.
  standardOutput().flush();
  standardError().write(text);
}
} // namespace

Status claimStandardStreams() {
  // Writing to a pipe without a reader, or beyond a file's size limit, must be
  // an error, so that there is a message and temporaries are removed.
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
      continue;
    // Opened in the wrong direction, so that using the descriptor still fails.
    // open() returns the lowest free number, which is `fd`.
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
  // Suggested commands are those of moec, which may be in another folder than
  // moert.
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
  noteUnescaped(moert::terminalSafe(pasteable(text)));
}

Status flush() {
  standardOutput().flush();
  return standardOutput().status();
}

int finish(Status status) {
  // Exit code that a shell reports for a program killed by SIGPIPE.
  constexpr int kAbandonedPipeCode = 128 + SIGPIPE;
  standardOutput().close();
  // A command that stops because nobody reads fails with the error of the
  // stream.
  bool isOfOutput = status.code() == StatusCode::Io &&
                    status.message().starts_with("standard output: ");
  bool isLost = !standardOutput().status().isOk();
  if ((isOfOutput || (status.isOk() && isLost)) &&
      standardOutput().isAbandonedPipe())
    return kAbandonedPipeCode;
  if (status.isOk())
    status = standardOutput().status();
  if (!status.isOk())
    printError(status);
  standardError().close();
  if (status.isOk() && !standardError().status().isOk() &&
      standardError().isAbandonedPipe())
    return kAbandonedPipeCode;
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
  noteUnescaped((colourAllowed() ? "\033[1;31merror:\033[0m " : "error: ") +
                moert::terminalSafe(pasteable(fullMessage(status))) + "\n");
}

void redrawLine(std::string_view text) {
  noteUnescaped("\r\033[K" + moert::terminalSafe(text));
}

} // namespace moetool
