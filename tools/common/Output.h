//===- Output.h - Where the tools print -------------------------*- C++ -*-===//
//
// All that a tool says goes through these functions. Nothing that can drive a
// terminal passes them (see terminalSafe), and what a full disk loses is
// noticed: finish() makes it exit code 4. A pipe whose reader has gone ends a
// command as it ends others, without a message: exit code 141.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_OUTPUT_H
#define MOE_TOOLS_COMMON_OUTPUT_H

#include "runtime/base/Status.h"
#include "tools/common/Remedies.h"

#include <fmt/format.h>
#include <string_view>

namespace moetool {

/// Call first in a process: standard descriptors that are closed are filled, so
/// that no file that is opened later can be taken for one, and writing to a
/// pipe that nobody reads, or beyond what a file may hold, becomes an error
/// instead of a signal.
moert::Status claimStandardStreams();

/// `argv0` is how this process was called: a path makes the commands that
/// errors and notes suggest paths in the same folder.
void setCalledAs(std::string_view argv0);
/// How to call the tool `name`: its path, where it is in the folder from which
/// this process was called by a path, else its name.
std::string toolPath(std::string_view name);
/// `message` with such commands; see withToolFolder().
std::string pasteable(std::string_view message);

/// Text on standard output: results. Collected until it is much, until
/// something goes to standard error, flush() or finish().
void printText(std::string_view text);
/// The same bytes where standard output is no terminal: results that programs
/// read.
void printBytes(std::string_view bytes);
/// A JSON text on standard output, control characters as \uNNNN.
void printJson(std::string_view json);
/// Text on standard error, at once: errors, notes and statistics.
void noteText(std::string_view text);

/// Suggests, on standard error, the command that a user runs next.
inline void noteNext(std::string_view command) {
  noteText(fmt::format("{}{}\n", kNextLead, command));
}

/// Formatted text on standard output, as fmt::print.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args &&...args) {
  printText(fmt::format(format, std::forward<Args>(args)...));
}
/// Formatted text on standard error.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args &&...args) {
  noteText(fmt::format(format, std::forward<Args>(args)...));
}

/// Writes what print() collected. Fails with Io if any of what was printed so
/// far was lost: work that only serves to print more can end.
moert::Status flush();

/// The end of a command: flushes, prints the error if there is one and returns
/// the exit code. An error keeps its own; a success whose output, on either
/// stream, was lost is an error of code Io, or 141 where nobody reads it.
int finish(moert::Status status);

/// Starts or ends dim text on standard output, where that is a terminal and
/// colour is allowed.
void setDim(bool dim);

/// Asks the terminal on standard output to mark what is pasted, between
/// ESC [ 200 ~ and ESC [ 201 ~, or to stop doing so.
void setBracketedPaste(bool bracketed);

/// Whether stderr is a terminal that wants progress (TERM is not "dumb"), and
/// colour is allowed (NO_COLOR unset).
bool stderrIsTerminal();
bool colourAllowed();

/// Prints "error: message" on stderr, in red on a terminal, and the command
/// that mends it.
void printError(const moert::Status &status);

/// Replaces the terminal's line, on stderr, by `text`.
void redrawLine(std::string_view text);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_OUTPUT_H
