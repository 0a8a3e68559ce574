//===- Remedies.h - Remedies as commands to paste ---------------*- C++ -*-===//
//
// A message that suggests a command ends with it, on a line of its own, so that
// a person finds it and copies nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_REMEDIES_H
#define MOE_TOOLS_COMMON_REMEDIES_H

#include "runtime/base/Remedy.h"
#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moetool {

/// The text in front of the command that a user should run next, which has its
/// own line.
inline constexpr std::string_view kNextLead = "next: ";

/// Returns the command in the form that a shell reads, for the current folder.
std::string commandLine(const moert::CompileCommand &command);

/// A remedy's command, or why it has none.
struct CommandText {
  std::string line; ///< "" if there is no such command.
  /// Set if the word MODEL stands for a file that only the user knows.
  bool wantsModel = false;
  /// Why no command can compile the plan again: a file that its options name is
  /// gone, or was a stream.
  std::string lost;
};
CommandText commandText(const moert::Remedy &remedy);

/// Returns the text that follows a message with a remedy: a line with the
/// command, or a note that there is none.
std::string ending(const moert::Remedy &remedy);

/// Returns the status's message and the ending of its remedy.
std::string fullMessage(const moert::Status &status);

/// Returns `message` with the path `folder` ("" or ending in a slash) in front
/// of the tool's name in every line that suggests a command: a program that was
/// started by a path may not be in the shell's search path.
std::string withToolFolder(std::string_view message, std::string_view folder);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_REMEDIES_H
