//===- ShellCommand.h - Commands that can be pasted -------------*- C++ -*-===//
//
// A message that suggests a command holds it on a line of its own, so that a
// person finds it and copies nothing else. Names in it may come from a file:
// whatever they hold, a shell reads them as words and a terminal shows them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_SHELLCOMMAND_H
#define MOE_RUNTIME_BASE_SHELLCOMMAND_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// `word` as a POSIX shell reads it back: as it is where that is safe, else
/// quoted. Bytes that a terminal must not get become octal numbers of a
/// "$(printf ...)", which loses newlines at the very end.
std::string shellWord(std::string_view word);

/// shellWord() for a file, "./-x" for the name -x, which would be an option.
std::string shellPath(std::string_view path);

/// The words of a line that shellWord()s make up, without expansions; none if
/// a quote stays open.
std::optional<std::vector<std::string>> shellSplit(std::string_view line);

/// What comes before the command on its line.
inline constexpr std::string_view kRunLead = "  run: ";
/// The same for a command in which the word MODEL stands for a file that only
/// the user knows.
inline constexpr std::string_view kRunWithModelLead =
    "  run, with the GGUF file for MODEL: ";

/// What comes before the command that a user runs next, on a line of its own.
inline constexpr std::string_view kNextLead = "next: ";

/// Why a message suggests a command: the rows of Suggestions.def.
enum class Suggestion {
#define MOE_SUGGESTION(name, text) name,
#include "runtime/base/Suggestions.def"
};

/// What the message says before the command; `detail` is put in place of {}.
std::string suggestionText(Suggestion suggestion, std::string_view detail = "");

/// The command's line, with which the message ends: "\n  run: <command>". Its
/// message has the text of the same suggestion.
std::string runLine(Suggestion suggestion, std::string_view command);

/// The text and the line: "recompile for this machine\n  run: <command>".
std::string suggest(Suggestion suggestion, std::string_view command);

/// Whether `line` is one of those, and for a person to paste.
bool suggestsCommand(std::string_view line);

/// `message` with the path `folder` ("" or ending in a slash) in front of the
/// tool's name wherever a line suggests a command: programs that were started
/// by a path may not be in the shell's.
std::string withToolFolder(std::string_view message, std::string_view folder);

} // namespace moert

#endif // MOE_RUNTIME_BASE_SHELLCOMMAND_H
