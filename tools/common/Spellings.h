//===- Spellings.h - Option names of other tools ----------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_SPELLINGS_H
#define MOE_TOOLS_COMMON_SPELLINGS_H

#include "runtime/base/Status.h"
#include "tools/common/CliFwd.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moetool {

/// The arguments of a command in our words.
struct OurWords {
  std::vector<std::string> words;
  /// What was put in place of other tools' options, for messages: "-ctk is
  /// --kv-type here".
  std::vector<std::string> changes;
  /// Options that were left out, because they ask for what is done anyway, and
  /// because they change no text and there is no such setting.
  std::vector<std::string> dropped, ignored;
  /// Differences between our option and that of the other tool.
  std::vector<std::string> notes;
  /// Why options without an equivalent in the command are refused, with the
  /// rows' answers. They are not among the words.
  std::vector<std::string> refusals;
};

/// Returns `words`, the arguments of `command`, with our options in place of
/// those of other tools (TheirOptions.def) that the command does not have
/// itself. Values are passed on as they are. A word after "--" that looks like
/// an option is made a path.
OurWords withOurSpellings(const CLI::App &command,
                          std::span<const std::string> words);

/// The names of other tools' options, for suggestions.
std::vector<std::string> theirOptionNames();

/// Our counterpart of a command of another tool.
struct TheirCommand {
  /// The words that take its place, such as moert and serve; none: none do.
  std::vector<std::string> words;
  /// Whether the command's arguments follow these words.
  bool takesArguments = false;
  std::string_view answer; ///< Text for the user; may be "".
};

/// Returns the command that other tools call `name`, if there is one.
std::optional<TheirCommand> theirCommand(const std::string &name);

/// Returns a table in Markdown of the options of other tools, what they are
/// called here, and how a user is told.
std::string theirOptionsPage();

} // namespace moetool

#endif // MOE_TOOLS_COMMON_SPELLINGS_H
