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

struct ValueRow {
  std::string_view name, values, ours, answer;
};
constexpr ValueRow kValues[] = {
#define MOE_THEIR_VALUE(name, values, ours, answer)                            \
  {name, values, ours, answer},
#include "tools/common/TheirOptions.def"
#undef MOE_THEIR_VALUE
};

struct CommandRow {
  std::string_view names, ours, answer;
};
constexpr CommandRow kCommands[] = {
#define MOE_THEIR_COMMAND(names, ours, answer) {names, ours, answer},
#include "tools/common/TheirOptions.def"
#undef MOE_THEIR_COMMAND
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

/// The row of a value of the option `name`; null if there is none.
const ValueRow *rowOfValue(std::string_view name, std::string_view value) {
  for (const ValueRow &row : kValues)
    if (row.name == name)
      for (const std::string &word : split(row.values, ','))
        if (word == value)
          return &row;
  return nullptr;
}

bool looksLikeOption(const std::string &word) {
  return word.size() > 1 && word[0] == '-' && word != "--" &&
         !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

/// Whether a word is a value of a switch, and which; of several with commas
/// between whether one is on.
std::optional<bool> switchValue(std::string_view word) {
  if (word.find(',') != word.npos) {
    bool isOn = false;
    for (const std::string &part : split(word, ',')) {
      std::optional<bool> on = switchValue(part);
      if (!on)
        return std::nullopt;
      isOn |= *on;
    }
    return isOn;
  }
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

  OurWords run() {
    while (at_ < words_.size()) {
      const std::string &word = words_[at_];
      if (word == "--") {
        for (const std::string &path : words_.subspan(at_ + 1))
          result_.words.push_back(path.starts_with('-') ? "./" + path : path);
        break;
      }
      if (!looksLikeOption(word)) {
        hasArgument_ = true;
        result_.words.push_back(words_[at_++]);
      } else if (Status status = takeOption(word); !status.isOk()) {
        result_.refusals.push_back(status.message());
      }
    }
    nameModel();
    for (const auto &[names, answer] : ignored_)
      result_.ignored.push_back(
          fmt::format("{}{}{}", names, answer.empty() ? "" : ": ", answer));
    if (splitsContext_ && hasContext())
      result_.notes.emplace_back(
          "the context is that of each sequence, not of all together");
    return std::move(result_);
  }

private:
  const CLI::Option *find(const std::string &name) const {
    return command_.get_option_no_throw(name);
  }

  bool hasContext() const {
    return std::ranges::any_of(result_.words, [](const std::string &word) {
      return word == "-c" || word == "--ctx";
    });
  }

  bool takesArgument() const {
    return std::ranges::any_of(command_.get_options(), [](const auto *option) {
      return option->get_positional();
    });
  }

  /// Without an argument, the file of a single --model is the argument. Beside
  /// one from KTransformers' options, which name the model's own folder with
  /// --model, it is left out.
  void nameModel() {
    constexpr std::string_view kModel = "--model";
    std::vector<std::string> &words = result_.words;
    auto isModel = [&](const std::string &word) { return word == kModel; };
    if (isArgumentOfOption_)
      if (auto option = std::ranges::find_if(words, isModel);
          option != words.end() && option + 1 != words.end() &&
          !option[1].ends_with(".gguf")) {
        ignore(*option, kHfFolder);
        words.erase(option, option + 2);
      }
    if (hasArgument_ || !takesArgument() ||
        std::ranges::count_if(words, isModel) != 1)
      return;
    auto option = std::ranges::find_if(words, isModel);
    if (option + 1 != words.end())
      words.erase(option);
  }

  /// Adds an option of ours with its value, or with what that means in ours.
  Status add(const std::string &name, const std::string &value,
             const std::string &typed) {
    const CLI::Option *own = find(name);
    for (const std::string &longName : own->get_lnames())
      if (const ValueRow *row = rowOfValue("--" + longName, value))
        return translateValue(*row, name, value, typed);
    result_.words.insert(result_.words.end(), {name, value});
    return Status::ok();
  }

  Status translateValue(const ValueRow &row, const std::string &ours,
                        const std::string &value, const std::string &typed) {
    if (row.ours == "-" || row.ours == "~") {
      const std::string both = typed + " " + value;
      if (row.ours == "-")
        result_.dropped.push_back(both);
      else
        ignore(both, row.answer);
    } else if (!row.ours.empty()) {
      result_.words.insert(result_.words.end(), {ours, std::string(row.ours)});
      result_.changes.push_back(
          fmt::format("{} {} is {} {} here", typed, value, ours, row.ours));
    } else {
      return Status(StatusCode::Usage,
                    fmt::format("{} {}: {}", typed, value, row.answer));
    }
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
      ++at_;
      // A value may look like an option, and is none.
      if (!value && own->get_items_expected_max() > 0 && at_ < words_.size())
        value = words_[at_++];
      if (value && own->get_items_expected_max() > 0)
        return add(name, *value, typed);
      result_.words.push_back(value ? name + "=" + *value : name);
      return Status::ok();
    }
    auto row = rowsByName().find(name);
    if (row == rowsByName().end()) {
      result_.words.push_back(word);
      ++at_;
      return Status::ok();
    }
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
    if (row.values == kMany) {
      while (at_ < words_.size() && !looksLikeOption(words_[at_]))
        values.push_back(words_[at_++]);
    } else if (row.values != kSwitch) {
      const size_t wanted = size_t(row.values == kPaired ? 1 : row.values);
      while (values.size() < wanted && at_ < words_.size())
        values.push_back(words_[at_++]);
    }
    if (holds && row.values == kPaired && !isPaired(row, values))
      holds = false;
    if (!values.empty())
      for (const std::string &name : split(row.names, ','))
        if (const ValueRow *same = rowOfValue(name, values.front());
            same && (same->ours == "-" || same->ours == "~" ||
                     find(std::string(row.ours))))
          return translateValue(*same, std::string(row.ours), values.front(),
                                typed);
    for (const std::string &ours : split(row.ours, '|')) {
      // A switch that is off may still be one that changes no text.
      if (!holds && !(row.values == kSwitch && ours == "~"))
        continue;
      MOE_ASSIGN_OR_RETURN(bool isPut, put(ours, row, typed, values));
      if (isPut)
        return Status::ok();
    }
    return Status(
        StatusCode::Usage,
        fmt::format("{}: {}", typed,
                    row.answer.empty()
                        ? std::string_view("this command has no such option")
                        : row.answer));
  }

  /// Whether no other row with the same words of ours has another value. An
  /// option alone stands for both, which is noted.
  bool isPaired(const Row &row, const std::vector<std::string> &values) {
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
    if (values.empty())
      return false;
    result_.notes.push_back(
        fmt::format("keys and values of the cache have one type: {} {}",
                    row.ours, values.front()));
    return true;
  }

  /// Leaves an option out, together with others that have the same answer.
  void ignore(const std::string &typed, std::string_view answer) {
    auto same = std::ranges::find(ignored_, answer, &Ignored::answer);
    if (same == ignored_.end())
      ignored_.push_back({typed, answer});
    else
      same->names += ", " + typed;
  }

  /// Puts our words in place of the option; false if the command lacks them.
  StatusOr<bool> put(const std::string &ours, const Row &row,
                     const std::string &typed,
                     const std::vector<std::string> &values) {
    if (ours.empty())
      return false;
    if (ours == "MODEL") {
      if (!takesArgument())
        return false;
      hasArgument_ = isArgumentOfOption_ = true;
      result_.words.insert(result_.words.end(), values.begin(), values.end());
      result_.changes.push_back(typed + " is the argument MODEL.gguf here");
      return true;
    }
    if ((ours[0] == '-' || ours[0] == '~') &&
        (ours.size() == 1 || ours[1] == ' ')) {
      const auto commands = split(
          std::string_view(ours).substr(std::min<size_t>(2, ours.size())), ',');
      if (ours.size() > 1 &&
          std::ranges::find(commands, command_.get_name()) == commands.end())
        return false;
      if (ours[0] == '-')
        result_.dropped.push_back(typed);
      else
        ignore(typed, row.answer);
      return true;
    }
    const size_t space = ours.find(' ');
    const std::string name = ours.substr(0, space);
    if (!find(name))
      return false;
    // In a pair, the second option means the same as the first.
    if (row.values == kPaired &&
        std::ranges::find(result_.words, name) != result_.words.end())
      return true;
    if (space != ours.npos)
      result_.words.insert(result_.words.end(), {name, ours.substr(space + 1)});
    else if (values.empty())
      result_.words.push_back(name);
    else
      MOE_RETURN_IF_ERROR(add(name, values.front(), typed));
    if (typed != name)
      result_.changes.push_back(fmt::format("{} is {} here", typed, ours));
    splitsContext_ |= name == "--sequences";
    return true;
  }

  const CLI::App &command_;
  std::span<const std::string> words_;
  size_t at_ = 0;
  struct Ignored {
    std::string names;
    std::string_view answer;
  };
  std::vector<Ignored> ignored_;
  bool hasArgument_ = false, isArgumentOfOption_ = false;
  /// Whether -np was given by a tool that divides -c among sequences.
  bool splitsContext_ = false;
  OurWords result_;
};

/// Returns a text in the form for a cell of a table.
std::string cell(std::string_view text) {
  std::string result;
  for (char c : text)
    result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}
} // namespace

OurWords withOurSpellings(const CLI::App &command,
                          std::span<const std::string> words) {
  return Translator(command, words).run();
}

std::vector<std::string> theirOptionNames() {
  std::vector<std::string> names;
  for (const auto &[name, row] : rowsByName())
    names.push_back(name);
  return names;
}

std::optional<TheirCommand> theirCommand(const std::string &name) {
  constexpr std::string_view kArguments = "...";
  for (const CommandRow &row : kCommands) {
    const std::vector<std::string> names = split(row.names, ',');
    if (std::ranges::find(names, name) == names.end())
      continue;
    TheirCommand command{.words = {}, .answer = row.answer};
    if (row.ours.empty())
      return command;
    for (std::string &word : split(row.ours, ' '))
      if (word == kArguments)
        command.takesArguments = true;
      else
        command.words.push_back(word == "*" ? name : std::move(word));
    return command;
  }
  return std::nullopt;
}

std::string theirOptionsPage() {
  std::string page = "| theirs | of | here | else a user is told |\n"
                     "|---|---|---|---|\n";
  size_t of[3] = {}, taken = 0, leftOut = 0, answered = 0;
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
    const bool isDone =
        row.ours.starts_with('-') && !row.ours.starts_with("--");
    const bool isLeftOut = row.ours.starts_with('~');
    std::string ours = isDone      ? "done anyway"
                       : isLeftOut ? "left out"
                                   : std::string(row.ours);
    (ours.empty()          ? answered
     : isDone || isLeftOut ? leftOut
                           : taken) += split(row.names, ',').size();
    page += fmt::format(
        "| {} | {} | {} | {} |\n",
        cell(fmt::format("{}", fmt::join(split(row.names, ','), ", "))),
        fmt::join(tools, ", "), cell(ours), cell(row.answer));
  }
  page += "\n| option | value of theirs | here | else a user is told |\n"
          "|---|---|---|---|\n";
  for (const ValueRow &row : kValues)
    page += fmt::format("| {} | {} | {} | {} |\n", row.name,
                        fmt::join(split(row.values, ','), ", "),
                        row.ours == "-"   ? "done anyway"
                        : row.ours == "~" ? "left out"
                                          : row.ours,
                        cell(row.answer));
  page += "\n| command of theirs | here | a user is told |\n|---|---|---|\n";
  for (const CommandRow &row : kCommands)
    page += fmt::format("| {} | {} | {} |\n",
                        fmt::join(split(row.names, ','), ", "), row.ours,
                        cell(row.answer));
  return page + fmt::format("\n{} rows of llama.cpp, {} of ik_llama.cpp, {} of "
                            "KTransformers\n{} names: {} are options here, {} "
                            "are left out with a note, {} are answered\n",
                            of[0], of[1], of[2], taken + leftOut + answered,
                            taken, leftOut, answered);
}

} // namespace moetool
