#include "tools/common/Options.h"

#include <CLI/CLI.hpp>

using moert::OptionInfo;
using moert::OptionKind;
using moert::Status;

namespace moetool {

namespace {
/// Returns the placeholder for the value in help.
std::string metavarOf(const OptionInfo &info) {
  if (!info.metavar.empty())
    return std::string(info.metavar);
  std::string names;
  for (std::string_view word : wordsOf(info))
    names += std::string(word) + "|";
  switch (info.kind) {
  case OptionKind::Flag:
    return "";
  case OptionKind::Word:
    return names.substr(0, names.size() - 1);
  case OptionKind::Text:
  case OptionKind::Texts:
    return "TEXT";
  case OptionKind::Path:
  case OptionKind::Paths:
    return "FILE";
  case OptionKind::Number:
    return names + "N";
  case OptionKind::Real:
    return "X";
  case OptionKind::Size:
    return "SIZE";
  case OptionKind::Numbers:
    return "N,...";
  }
  return "";
}

/// Returns the default that help shows for the default value `word`.
std::string shownDefault(const OptionInfo &info, const std::string &word) {
  if (!info.shownDefault.empty())
    return info.shownDefault == "-" ? "" : std::string(info.shownDefault);
  // A size of 0 stands for no limit and is not shown.
  return info.kind == OptionKind::Size && word == "0B" ? "" : word;
}

bool isList(const OptionInfo &info) {
  return info.kind == OptionKind::Texts || info.kind == OptionKind::Paths ||
         info.kind == OptionKind::Numbers;
}

/// Applies the relations in a row. They refer to options that were added
/// before, and are ignored if the command does not have the other option.
void applyRelations(CLI::App &command, const OptionInfo &info,
                    CLI::Option *option) {
  for (std::string_view rest = info.excludes; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (CLI::Option *other = command.get_option_no_throw(std::string(name)))
      option->excludes(other);
  }
  if (!info.needs.empty())
    option->needs(command.get_option(std::string(info.needs)));
}

CLI::Option *describe(CLI::App &command, const OptionInfo &info,
                      CLI::Option *option) {
  if (!info.group.empty())
    option->group(std::string(info.group));
  option->required(info.isRequired);
  applyRelations(command, info, option);
  return option;
}
} // namespace

CLI::Option *addReader(CLI::App &command, const OptionInfo &info,
                       ReadValue read, const std::string &shown) {
  std::string name(longName(info));
  // CLI11's own conversions interpret "{}" and "%%"; here every value is passed
  // on unchanged.
  CLI::callback_t take = [read = std::move(read),
                          name](const CLI::results_t &texts) {
    for (const std::string &text : texts)
      if (Status status = read(text); !status.isOk())
        throw CLI::ValidationError(name, status.message());
    return true;
  };
  CLI::Option *option =
      command.add_option(std::string(info.names), take, std::string(info.help))
          ->type_name(metavarOf(info))
          ->default_str(shownDefault(info, shown))
          ->multi_option_policy(isList(info) ? CLI::MultiOptionPolicy::TakeAll
                                             : CLI::MultiOptionPolicy::Throw);
  bool isPositional = !name.starts_with('-');
  // Each value needs the option's name before it, so that the arguments after
  // it are not taken as further values.
  if (isPositional && isList(info))
    option->expected(-1);
  else
    option->allow_extra_args(false);
  return describe(command, info, option);
}

CLI::Option *addFlag(CLI::App &command, const OptionInfo &info,
                     std::function<void()> set) {
  return describe(command, info,
                  command.add_flag_callback(std::string(info.names),
                                            std::move(set),
                                            std::string(info.help)));
}

void addFooter(CLI::App &command, std::string text) {
  command.footer(std::move(text));
}

bool isGiven(const CLI::Option *option) { return option->count() > 0; }

} // namespace moetool
