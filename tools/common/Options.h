//===- Options.h - Adds options from table rows to commands -----*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_OPTIONS_H
#define MOE_TOOLS_COMMON_OPTIONS_H

#include "runtime/base/OptionWord.h"
#include "tools/common/CliFwd.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moetool {

/// Parses one value of an option. An error's message is printed after the
/// option's name.
using ReadValue = std::function<moert::Status(const std::string &)>;

/// Adds an option whose values go to `read`. `shown` is the default in help,
/// unless the row specifies another.
CLI::Option *addReader(CLI::App &command, const moert::OptionInfo &info,
                       ReadValue read, const std::string &shown = "");

/// Adds a flag that calls `set`.
CLI::Option *addFlag(CLI::App &command, const moert::OptionInfo &info,
                     std::function<void()> set);

/// Shows `text` below the options in the command's help.
void addFooter(CLI::App &command, std::string text);

/// Returns whether the command line has the option.
bool isGiven(const CLI::Option *option);

/// Adds an option that is parsed into `value`, which contains the default.
template <class T>
CLI::Option *addOption(CLI::App &command, const moert::OptionInfo &info,
                       T &value) {
  using moert::optionWord;
  using moert::parseOption;
  if constexpr (std::is_same_v<T, bool>) {
    return addFlag(command, info, [&value] { value = true; });
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return addReader(command, info, [&value](const std::string &text) {
      value.push_back(text);
      return moert::Status::ok();
    });
  } else {
    // Numbers that are given replace the default list.
    return addReader(
        command, info,
        [&value, info, isFirst = true](const std::string &text) mutable {
          if (isFirst && info.kind == moert::OptionKind::Numbers)
            value = T();
          isFirst = false;
          return parseOption(info, text, value);
        },
        optionWord(info, value));
  }
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_OPTIONS_H
