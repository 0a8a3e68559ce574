#include "tools/common/Spellings.h"

#include "tools/common/TheirAnswers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetool {

namespace {
struct Row {
  std::string_view names;
  int values;
  std::string_view ours, answer;
  unsigned of;
};

using namespace theirs;
constexpr Row kRows[] = {
#define MOE_THEIRS(names, values, ours, answer, of)                            \
  {names, values, ours, answer, of},
#include "tools/common/TheirOptions.def"
#undef MOE_THEIRS
};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size())
      return parts;
    text.remove_prefix(end + 1);
  }
}

const std::map<std::string, const Row *, std::less<>> &rowsByName() {
  static const auto rows = [] {
    std::map<std::string, const Row *, std::less<>> found;
    for (const Row &row : kRows)
      for (std::string &name : split(row.names, ','))
        found.emplace(std::move(name), &row);
    return found;
  }();
  return rows;
}

/// Long names are also typed with underscores.
std::string normal(std::string name) {
  if (name.starts_with("--"))
    std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool looksLikeOption(const std::string &word) {
  return word.size() > 1 && word[0] == '-' && word != "--" &&
         !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

/// Whether a word is a value of a switch, and which.
std::optional<bool> switchValue(std::string_view word) {
  for (std::string_view on : {"on", "true", "yes", "1", "auto", "enabled"})
    if (word == on)
      return true;
  for (std::string_view off : {"off", "false", "no", "0", "disabled"})
    if (word == off)
      return false;
  return std::nullopt;
}

/// Translates the arguments of one command.
class Translator {
public:
  Translator(const CLI::App &command, std::span<const std::string> words)
      : command_(command), words_(words) {}

  StatusOr<OurWords> run() {
    while (at_ < words_.size()) {
      const std::string &word = words_[at_];
      if (word == "--") {
        for (const std::string &path : words_.subspan(at_ + 1))
          result_.words.push_back(path.starts_with('-') ? "./" + path : path);
        break;
      }
      MOE_RETURN_IF_ERROR(looksLikeOption(word) ? takeOption(word) : take());
    }
    return std::move(result_);
  }

private:
  const CLI::Option *find(const std::string &name) const {
    return command_.get_option_no_throw(name);
  }

  Status take() {
    result_.words.push_back(words_[at_++]);
    return Status::ok();
  }

  Status takeOption(const std::string &word) {
    const size_t equals = word.find('=');
    const std::string typed = word.substr(0, equals);
    const std::string name = normal(typed);
    std::optional<std::string> value;
    if (equals != word.npos)
      value = word.substr(equals + 1);
    if (const CLI::Option *own = find(name)) {
      result_.words.push_back(name + (value ? "=" + *value : ""));
      ++at_;
      // A value may look like an option, and is none.
      if (!value && own->get_items_expected_max() > 0 && at_ < words_.size())
        return take();
      return Status::ok();
    }
    auto row = rowsByName().find(name);
    if (row == rowsByName().end())
      return take();
    ++at_;
    return translate(*row->second, typed, std::move(value));
  }

  /// Takes the values of a row from the words, but for those after "=".
  Status translate(const Row &row, const std::string &typed,
                   std::optional<std::string> given) {
    bool holds = true;
    std::vector<std::string> values;
    if (given)
      values.push_back(*std::move(given));
    const auto next = [&] {
      return at_ < words_.size() ? switchValue(words_[at_]) : std::nullopt;
    };
    if (row.values == kSwitch) {
      std::optional<bool> on =
          values.empty() ? next() : switchValue(values.front());
      if (values.empty() && on)
        ++at_;
      holds = on.value_or(true);
      values.clear();
    }
    const size_t wanted = size_t(row.values == kPaired ? 1 : row.values);
    if (row.values != kSwitch)
      while (values.size() < wanted && at_ < words_.size())
        values.push_back(words_[at_++]);
    if (holds && row.values == kPaired && !isPaired(row, values))
      holds = false;
    if (holds)
      for (const std::string &ours : split(row.ours, '|'))
        if (put(ours, row, typed, values))
          return Status::ok();
    return Status(
        StatusCode::Usage,
        fmt::format("{}: {}", typed,
                    row.answer.empty()
                        ? std::string_view("this command has no such option")
                        : row.answer));
  }

  /// Whether another row with the same words of ours has the same value.
  bool isPaired(const Row &row, const std::vector<std::string> &values) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      const size_t equals = words_[i].find('=');
      auto other = rowsByName().find(normal(words_[i].substr(0, equals)));
      if (other == rowsByName().end() || other->second == &row ||
          other->second->ours != row.ours)
        continue;
      const std::string value = equals != std::string::npos
                                    ? words_[i].substr(equals + 1)
                                : i + 1 < words_.size() ? words_[i + 1]
                                                        : "";
      return !values.empty() && value == values.front();
    }
    return false;
  }

  /// Puts our words in place of the option; false if the command lacks them.
  bool put(const std::string &ours, const Row &row, const std::string &typed,
           const std::vector<std::string> &values) {
    if (ours.empty())
      return false;
    if (ours == "MODEL") {
      const bool hasArgument =
          std::ranges::any_of(command_.get_options(), [](const auto *option) {
            return option->get_positional();
          });
      if (hasArgument)
        result_.words.insert(result_.words.end(), values.begin(), values.end());
      return hasArgument;
    }
    if (ours[0] == '-' && (ours.size() == 1 || ours[1] == ' ')) {
      const auto commands = split(
          std::string_view(ours).substr(std::min<size_t>(2, ours.size())), ',');
      if (ours.size() > 1 &&
          std::ranges::find(commands, command_.get_name()) == commands.end())
        return false;
      result_.dropped.push_back(typed);
      return true;
    }
    const size_t space = ours.find(' ');
    const std::string name = ours.substr(0, space);
    if (!find(name))
      return false;
    // Of a pair, the second one says what the first one said.
    if (row.values == kPaired &&
        std::ranges::find(result_.words, name) != result_.words.end())
      return true;
    result_.words.push_back(name);
    if (space != ours.npos)
      result_.words.push_back(ours.substr(space + 1));
    else
      result_.words.insert(result_.words.end(), values.begin(), values.end());
    if (typed != name)
      result_.changes.push_back(fmt::format("{} is {} here", typed, ours));
    return true;
  }

  const CLI::App &command_;
  std::span<const std::string> words_;
  size_t at_ = 0;
  OurWords result_;
};

/// For a cell of a table.
std::string cell(std::string_view text) {
  std::string result;
  for (char c : text)
    result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}
} // namespace

StatusOr<OurWords> withOurSpellings(const CLI::App &command,
                                    std::span<const std::string> words) {
  return Translator(command, words).run();
}

std::string theirOptionsPage() {
  std::string page = "| theirs | of | here | else a user is told |\n"
                     "|---|---|---|---|\n";
  size_t of[3] = {};
  for (const Row &row : kRows) {
    std::vector<std::string_view> tools;
    constexpr std::string_view names[] = {"llama.cpp", "ik_llama.cpp",
                                          "KTransformers"};
    for (size_t i = 0; i < 3; ++i)
      if (row.of & 1u << i) {
        tools.push_back(names[i]);
        ++of[i];
      }
    if (tools.empty())
      continue;
    std::string ours = row.ours.starts_with('-') && !row.ours.starts_with("--")
                           ? "done anyway"
                           : std::string(row.ours);
    page += fmt::format(
        "| {} | {} | {} | {} |\n",
        cell(fmt::format("{}", fmt::join(split(row.names, ','), ", "))),
        fmt::join(tools, ", "), cell(ours), cell(row.answer));
  }
  return page + fmt::format("\n{} rows of llama.cpp, {} of ik_llama.cpp, {} of "
                            "KTransformers\n",
                            of[0], of[1], of[2]);
}

} // namespace moetool
