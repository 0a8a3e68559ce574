#include "tools/common/Remedies.h"

#include "kernels/Registry.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace moetool {

namespace {
using namespace moert; // Rows of Options.def use names of this namespace.
namespace stdfs = std::filesystem;
using Option = CompileCommand::Option;

constexpr std::string_view kRunLead = "  run: ";
constexpr std::string_view kRunWithModelLead =
    "  run, with the GGUF file for MODEL: ";

//===----------------------------------------------------------------------===//
// The options of a plan that is compiled again
//===----------------------------------------------------------------------===//

/// A row of moec's table of options. Those that name files to write are not
/// taken from a plan file.
struct OptionRow {
  OptionInfo info;
  std::string_view fallback; ///< Default as it is written in the table.

  bool isDefault(const std::string &value) const {
    return fallback == value || fallback == '"' + value + '"';
  }
};
constexpr OptionRow kOptionRows[] = {
#define MOE_OPTION(field, Type, fallback, ...) {{__VA_ARGS__}, #fallback},
#include "compiler/Options/Options.def"
};

/// Returns the row of an option that plans record; null for any other option.
const OptionRow *findRow(std::string_view name) {
  auto it = std::ranges::find_if(kOptionRows, [&](const OptionRow &row) {
    return longName(row.info) == name && (row.info.use & kRecorded);
  });
  return it == std::end(kOptionRows) ? nullptr : it;
}

bool isFile(const std::string &path) {
  std::error_code ignored;
  return stdfs::is_regular_file(path, ignored);
}

/// Returns the options that shaped the plan, with paths relative to the current
/// folder. The path "-" stands for a stream.
std::vector<Option> recordedOptions(const RecompileCommand &command) {
  std::vector<std::string> words =
      shellSplit(command.options).value_or(std::vector<std::string>());
  stdfs::path folder = stdfs::path(command.plan).parent_path();
  std::vector<Option> options;
  for (size_t i = 0; i < words.size(); ++i) {
    const OptionRow *row = findRow(words[i]);
    if (!row)
      continue;
    Option option{words[i], "", row->info.kind};
    if (option.kind != OptionKind::Flag) {
      if (++i == words.size())
        break;
      bool isPath = option.kind == OptionKind::Path && words[i] != "-";
      option.value = isPath ? (folder / words[i]).string() : words[i];
    }
    options.push_back(std::move(option));
  }
  return options;
}

/// Returns a ladder (moec's LadderCompilation.h) without its memory limits, for
/// a compilation on another machine: the limits are meant for this one's GPUs.
std::string withoutBudgets(std::string_view ladder) {
  std::vector<std::string_view> contexts;
  while (!ladder.empty()) {
    size_t end = std::min(ladder.find(','), ladder.size());
    std::string_view rung = ladder.substr(0, end);
    rung = rung.substr(0, rung.find('@'));
    if (std::ranges::find(contexts, rung) == contexts.end())
      contexts.push_back(rung);
    ladder.remove_prefix(std::min(end + 1, ladder.size()));
  }
  return fmt::format("{}", fmt::join(contexts, ","));
}

/// Returns the options with a change. A ladder gets an additional rung for a
/// context.
void apply(const OptionChange &change, std::vector<Option> &options) {
  auto find = [&](std::string_view name) {
    return std::ranges::find(options, name, &Option::name);
  };
  auto ladder = find("--ladder");
  if (change.name == "--target") {
    if (ladder != options.end()) {
      ladder->value = withoutBudgets(ladder->value);
      if (ladder->value.find(',') == std::string::npos)
        ladder->name = "--ctx";
    }
    // Rules and limits were for the devices of the machine before.
    std::erase_if(options, [](const Option &old) {
      return findRow(old.name)->info.use & kOfMachine;
    });
  } else if (change.name == "--ctx" && ladder != options.end()) {
    ladder->value += "," + change.value;
    return;
  }
  if (auto old = find(change.name); old != options.end())
    old->value = change.value;
  else
    options.push_back(
        {change.name, change.value, findRow(change.name)->info.kind});
}

/// Returns the options of the new compilation, in the table's order.
std::vector<Option> newOptions(const RecompileCommand &command) {
  std::vector<Option> options = recordedOptions(command);
  for (const OptionChange &change : command.changes)
    apply(change, options);
  std::erase_if(options, [](const Option &option) {
    return findRow(option.name)->isDefault(option.value);
  });
  std::ranges::stable_sort(
      options, {}, [](const Option &option) { return findRow(option.name); });
  return options;
}

/// Returns why a command with these options cannot compile the plan again, or
/// "" if it can.
std::string whatIsLost(const std::vector<Option> &options) {
  for (const Option &option : options) {
    if (option.kind != OptionKind::Path)
      continue;
    if (option.value == "-")
      return fmt::format("what {} read from a stream is not kept", option.name);
    if (!isFile(option.value))
      return fmt::format("{} {} is not there any more", option.name,
                         shellPath(option.value));
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Commands of each kind
//===----------------------------------------------------------------------===//

/// Returns a value in the form that a shell reads. "-" is a stream, not a file
/// of this name.
std::string shellValue(const Option &option) {
  bool isPath = option.kind == OptionKind::Path && option.value != "-";
  return isPath ? shellPath(option.value) : shellWord(option.value);
}

CommandText textOf(const CompileCommand &command) {
  return {commandLine(command), false, ""};
}

CommandText textOf(const RecompileCommand &command) {
  std::vector<Option> options = newOptions(command);
  if (std::string lost = whatIsLost(options); !lost.empty())
    return {"", false, std::move(lost)};
  if (!command.weights.empty())
    options.push_back({"--weights-file", command.weights, OptionKind::Path});
  bool wantsModel = command.model.empty();
  return {commandLine(CompileCommand{wantsModel ? "MODEL" : command.model,
                                     std::move(options), command.plan}),
          wantsModel, ""};
}

CommandText textOf(const OtherCommand &command) {
  std::string line;
  for (const std::string &word : command.words)
    line += (line.empty() ? "" : " ") + shellWord(word);
  return {std::move(line), false, ""};
}
} // namespace

std::string commandLine(const CompileCommand &command) {
  std::string line = "moec ";
  if (std::optional<moek::Isa> most = moek::hostIsaLimit())
    line += fmt::format("--isa {} ", moek::isaName(*most));
  line += "compile " + shellPath(command.model);
  for (const Option &option : command.options) {
    line += " " + option.name;
    if (option.kind != OptionKind::Flag)
      line += " " + shellValue(option);
  }
  if (!command.output.empty())
    line += " -o " + shellValue({"-o", command.output, OptionKind::Path});
  return line;
}

CommandText commandText(const Remedy &remedy) {
  return std::visit([](const auto &command) { return textOf(command); },
                    remedy.command);
}

std::string ending(const Remedy &remedy) {
  CommandText text = commandText(remedy);
  if (text.line.empty())
    return fmt::format(", with the options that moec explain lists: no command "
                       "can be suggested, since {}",
                       text.lost);
  return fmt::format("\n{}{}", text.wantsModel ? kRunWithModelLead : kRunLead,
                     text.line);
}

std::string fullMessage(const Status &status) {
  return status.message() + (status.remedy() ? ending(*status.remedy()) : "");
}

std::string withToolFolder(std::string_view message, std::string_view folder) {
  std::string result;
  while (!message.empty()) {
    size_t length = std::min(message.find('\n'), message.size() - 1) + 1;
    std::string_view line = message.substr(0, length);
    message.remove_prefix(length);
    for (std::string_view lead : {kRunLead, kRunWithModelLead, kNextLead})
      if (line.starts_with(lead)) {
        result += lead;
        result += folder.empty() ? "" : shellPath(folder);
        line.remove_prefix(lead.size());
      }
    result += line;
  }
  return result;
}

} // namespace moetool
