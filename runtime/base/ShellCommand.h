//===- ShellCommand.h - Commands that can be pasted -------------*- C++ -*-===//
//
// Names in a command may come from a file: whatever they hold, a shell reads
// them as words and a terminal shows them.
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

} // namespace moert

#endif // MOE_RUNTIME_BASE_SHELLCOMMAND_H
