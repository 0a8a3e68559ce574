#include "tools/common/Spellings.h"

#include <CLI/CLI.hpp>
#include <algorithm>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetool {

namespace {
bool hasOption(const CLI::App &command, std::string_view name) {
  return command.get_option_no_throw(std::string(name)) != nullptr;
}

/// Returns the spelling for `name` in this command, or null. A name may stand
/// for several options, of which a command has one.
const Spelling *findSpelling(const CLI::App &command, std::string_view name,
                             std::span<const Spelling> spellings) {
  if (hasOption(command, name))
    return nullptr;
  for (const Spelling &spelling : spellings) {
    if (spelling.name != name)
      continue;
    std::string_view option = spelling.ours.substr(0, spelling.ours.find(' '));
    if (!option.starts_with("--") || hasOption(command, option))
      return &spelling;
  }
  return nullptr;
}
} // namespace

StatusOr<std::vector<std::string>>
withOurSpellings(const CLI::App &command, std::span<const std::string> words,
                 std::span<const Spelling> spellings) {
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (word == "--") {
      for (const std::string &path : words.subspan(i + 1))
        result.push_back(path.starts_with('-') ? "./" + path : path);
      break;
    }
    std::string name = word.substr(0, word.find('='));
    const Spelling *spelling = findSpelling(command, name, spellings);
    if (!spelling) {
      result.push_back(word);
      continue;
    }
    if (!spelling->answer.empty())
      return Status(StatusCode::Usage,
                    name + ": " + std::string(spelling->answer));
    size_t space = spelling->ours.find(' ');
    bool isOption = spelling->ours.starts_with("--");
    if (isOption)
      result.emplace_back(spelling->ours.substr(0, space));
    if (isOption && space != spelling->ours.npos)
      result.emplace_back(spelling->ours.substr(space + 1));
    if (name.size() < word.size())
      result.push_back(word.substr(name.size() + 1));
  }
  return result;
}

} // namespace moetool
