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

/// Returns `word` as a POSIX shell reads it back: unchanged if that is safe,
/// else quoted. Bytes that a terminal must not receive become octal numbers of
/// a "$(printf ...)", which loses newlines at the very end.
std::string shellWord(std::string_view word);

/// Returns shellWord() for a file. A name such as -x becomes "./-x", because it
/// would be taken for an option.
std::string shellPath(std::string_view path);

/// Splits a line that consists of shellWord()s into words, without expansions.
/// Returns nothing if a quote is not closed.
std::optional<std::vector<std::string>> shellSplit(std::string_view line);

} // namespace moert

#endif // MOE_RUNTIME_BASE_SHELLCOMMAND_H
