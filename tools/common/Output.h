//===- Output.h - Prints the output of the tools ----------------*- C++ -*-===//
//
// All output of a tool goes through these functions. They escape everything
// that can control a terminal (terminalSafe) and notice output that is lost,
// for example on a full disk: finish() turns this into exit code 4. If the
// reader of a pipe has gone, the command ends without a message, with exit code
// 141, like other programs.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_OUTPUT_H
#define MOE_TOOLS_COMMON_OUTPUT_H

#include "runtime/base/Status.h"
#include "tools/common/Remedies.h"

#include <fmt/format.h>
#include <string_view>

namespace moetool {

/// Must be called first in a process. Fills closed standard descriptors, so
/// that a file opened later cannot be mistaken for one, and turns SIGPIPE and
/// SIGXFSZ into errors of write().
moert::Status claimStandardStreams();

/// `argv0` is the name under which this process was called. If it is a path,
/// suggested commands use the same folder.
void setCalledAs(std::string_view argv0);
/// Returns how to call the tool `name`: its path if it is in the folder from
/// which this process was called by path, else its name.
std::string toolPath(std::string_view name);
/// Returns `message` with its commands in this form; see withToolFolder().
std::string pasteable(std::string_view message);

/// Prints text, the results, on standard output. It is buffered until the
/// buffer is full, output goes to standard error, or flush() or finish() is
/// called.
void printText(std::string_view text);
/// Does the same, but does not escape bytes unless standard output is a
/// terminal: for results that programs read.
void printBytes(std::string_view bytes);
/// Prints a JSON text on standard output, with control characters as \uNNNN.
void printJson(std::string_view json);
/// Prints text on standard error at once: errors, notes and statistics. Any
/// thread may; texts do not mix.
void noteText(std::string_view text);

/// Suggests the user's next command on standard error.
inline void noteNext(std::string_view command) {
  noteText(fmt::format("{}{}\n", kNextLead, command));
}

/// Prints formatted text on standard output, like fmt::print.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args &&...args) {
  printText(fmt::format(format, std::forward<Args>(args)...));
}
/// Prints formatted text on standard error.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args &&...args) {
  noteText(fmt::format(format, std::forward<Args>(args)...));
}

/// Writes the buffered output. Fails with Io if any output so far was lost:
/// work that only serves to print more can end.
moert::Status flush();

/// Ends a command: flushes, prints the error if there is one, and returns the
/// exit code. If output on either stream was lost, a success becomes an error
/// with code Io, or 141 if nobody reads it; an error keeps its code.
int finish(moert::Status status);

/// Starts or ends dim text on standard output if it is a terminal and colour is
/// allowed.
void setDim(bool dim);

/// Asks the terminal on standard output to mark pasted text with ESC [ 200 ~
/// and ESC [ 201 ~, or to stop doing so.
void setBracketedPaste(bool bracketed);

/// Returns whether stderr is a terminal that can show progress (TERM is not
/// "dumb"), and whether colour is allowed (NO_COLOR unset).
bool stderrIsTerminal();
bool colourAllowed();

/// Prints "error: message" on stderr, in red on a terminal, and the command
/// that mends it.
void printError(const moert::Status &status);

/// Replaces the current line of the terminal on stderr by `text`.
void redrawLine(std::string_view text);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_OUTPUT_H
