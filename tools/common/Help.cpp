#include "tools/common/Help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <vector>

namespace moetool {

namespace {
/// Properties of an option that all forms of help use.
struct Entry {
  std::string names; ///< "-c, --ctx N", or the word for a positional argument.
  std::string text;  ///< What the option does, with its default.
  std::vector<std::string> longNames, shortNames; ///< Spellings with dashes.
  /// Words that the option accepts as its value.
  std::vector<std::string> words;
  bool isPositional = false, hasValue = false, isRequired = false;
  std::string group;
};

std::vector<std::string> wordsIn(std::string_view type) {
  std::vector<std::string> words;
  if (type.find('|') == type.npos)
    return words;
  for (size_t at = 0; at <= type.size();) {
    size_t end = std::min(type.find('|', at), type.size());
    // "N" stands for numbers.
    if (std::string_view word = type.substr(at, end - at); word != "N")
      words.emplace_back(word);
    at = end + 1;
  }
  return words;
}

Entry entryOf(const CLI::Option &option) {
  Entry entry;
  std::string type = option.get_type_name();
  entry.hasValue = option.get_type_size() > 0;
  entry.isPositional = option.get_positional();
  entry.isRequired = option.get_required();
  entry.group = option.get_group();
  for (const std::string &name : option.get_snames())
    entry.shortNames.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    entry.longNames.push_back("--" + name);
  if (entry.isPositional) {
    entry.names = type.empty() ? option.get_single_name() : type;
  } else {
    std::vector<std::string> all = entry.shortNames;
    all.insert(all.end(), entry.longNames.begin(), entry.longNames.end());
    entry.names = fmt::format("{}", fmt::join(all, ", "));
    if (entry.hasValue && !type.empty())
      entry.names += " " + type;
  }
  entry.text = option.get_description();
  if (std::string shown = option.get_default_str(); !shown.empty())
    entry.text += " [" + shown + "]";
  if (entry.hasValue)
    entry.words = wordsIn(type);
  return entry;
}

std::vector<Entry> entriesOf(const CLI::App &app) {
  std::vector<Entry> entries;
  for (const CLI::Option *option : app.get_options())
    entries.push_back(entryOf(*option));
  return entries;
}

/// Returns the groups in order of first use, without positional arguments and
/// the group "", whose options help does not list.
std::vector<std::string> groupsOf(const std::vector<Entry> &entries) {
  std::vector<std::string> groups;
  for (const Entry &entry : entries)
    if (!entry.isPositional && !entry.group.empty() &&
        std::ranges::find(groups, entry.group) == groups.end())
      groups.push_back(entry.group);
  // The options common to all commands come last.
  auto common = std::ranges::find(groups, "Options");
  if (common != groups.end())
    std::rotate(common, common + 1, groups.end());
  return groups;
}

/// Appends `text`, wrapped at spaces and indented by `indent` columns. The
/// first line continues at `column`.
void wrap(std::string &out, std::string_view text, size_t indent, size_t column,
          size_t width) {
  bool isFirst = true;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!isFirst && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!isFirst) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    isFirst = false;
  }
  out += '\n';
}

void addRow(std::string &out, const std::string &name, std::string_view text,
            size_t width) {
  constexpr size_t kIndent = 28;
  out += "  " + name;
  size_t column = 2 + name.size();
  if (column + 2 > kIndent) {
    out += "\n" + std::string(kIndent, ' ');
  } else {
    out += std::string(kIndent - column, ' ');
  }
  wrap(out, text, kIndent, kIndent, width);
}

/// Commands without a footer inherit that of the tool, which is shown once.
bool hasOwnFooter(const CLI::App &command) {
  return command.get_footer() != command.get_parent()->get_footer();
}

std::vector<const CLI::App *> commandsOf(const CLI::App &app) {
  return app.get_subcommands([](const CLI::App *) { return true; });
}

std::string usageOf(const CLI::App &app) {
  std::string usage =
      app.get_parent() ? app.get_parent()->get_name() + " " : "";
  usage += app.get_name();
  if (!commandsOf(app).empty())
    return usage + " COMMAND [OPTIONS]";
  for (const Entry &entry : entriesOf(app))
    if (entry.isPositional)
      usage += entry.isRequired ? " " + entry.names : " [" + entry.names + "]";
  for (const Entry &entry : entriesOf(app))
    if (!entry.isPositional && entry.isRequired)
      usage += " " + entry.names.substr(entry.names.find("--"));
  return usage + " [OPTIONS]";
}

/// Escapes a text for roff.
std::string roff(std::string_view text) {
  std::string result;
  for (char c : text)
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  if (result.starts_with('.') || result.starts_with('\''))
    result.insert(0, "\\&");
  return result;
}

/// Escapes characters that are markup in Markdown, also in the middle of words.
std::string markdown(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (std::string_view("*_<>[]|`").find(c) != std::string_view::npos)
      result += '\\';
    result += c;
  }
  return result;
}

std::string describe(const CLI::App &app) {
  return app.get_description() + ".";
}
} // namespace

std::string helpText(const CLI::App &app, size_t width) {
  std::string out;
  wrap(out, describe(app), 0, 0, width);
  out += "\nUsage: " + usageOf(app) + "\n";
  std::vector<Entry> entries = entriesOf(app);
  bool hasArguments = false;
  for (const Entry &entry : entries)
    if (entry.isPositional) {
      out += hasArguments ? "" : "\nArguments:\n";
      hasArguments = true;
      addRow(out, entry.names, entry.text, width);
    }
  if (std::vector<const CLI::App *> commands = commandsOf(app);
      !commands.empty()) {
    out += "\nCommands:\n";
    for (const CLI::App *command : commands)
      addRow(out, command->get_name(), command->get_description(), width);
  }
  for (const std::string &group : groupsOf(entries)) {
    out += "\n" + group + ":\n";
    for (const Entry &entry : entries)
      if (!entry.isPositional && entry.group == group)
        addRow(out, entry.names, entry.text, width);
  }
  if (!app.get_footer().empty())
    out += "\n" + app.get_footer() + "\n";
  return out;
}

std::string manPage(const CLI::App &tool) {
  std::string name = tool.get_name();
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), ::toupper);
  std::string out = fmt::format(".TH {} 1 \"\" \"{} {}\"\n.SH NAME\n{} \\- {}\n"
                                ".SH SYNOPSIS\n.B {}\nCOMMAND [OPTIONS]\n",
                                upper, name, MOE_VERSION, name,
                                roff(tool.get_description()), name);
  auto addEntries = [&](const std::vector<Entry> &entries) {
    for (const Entry &entry : entries)
      out +=
          fmt::format(".TP\n.B {}\n{}\n", roff(entry.names), roff(entry.text));
  };
  for (const CLI::App *command : commandsOf(tool)) {
    out += fmt::format(".SH {}\n{}\n.PP\n.B {}\n", roff(command->get_name()),
                       roff(describe(*command)), roff(usageOf(*command)));
    std::vector<Entry> entries = entriesOf(*command);
    std::erase_if(entries, [](const Entry &entry) {
      return entry.group == "Options" && entry.shortNames.size() == 1 &&
             entry.shortNames[0] == "-h";
    });
    addEntries(entries);
    if (hasOwnFooter(*command))
      out += fmt::format(".PP\n{}\n", roff(command->get_footer()));
  }
  out += ".SH OPTIONS\n";
  addEntries(entriesOf(tool));
  out += fmt::format(".SH EXIT STATUS\n{}\n", roff(tool.get_footer()));
  return out;
}

std::string markdownReference(const CLI::App &tool) {
  std::string out = fmt::format("# {}\n\n", tool.get_name());
  wrap(out, markdown(describe(tool)), 0, 0, 120);
  for (const CLI::App *command : commandsOf(tool)) {
    out += fmt::format("\n## {} {}\n\n", tool.get_name(), command->get_name());
    wrap(out, markdown(describe(*command)), 0, 0, 120);
    out += fmt::format("\n    {}\n", usageOf(*command));
    if (hasOwnFooter(*command)) {
      out += '\n';
      std::string footer = command->get_footer();
      std::ranges::replace(footer, '\n', ' ');
      wrap(out, markdown(footer), 0, 0, 120);
    }
    std::vector<Entry> entries = entriesOf(*command);
    auto add = [&](const Entry &entry) {
      out += fmt::format("* `{}`: ", entry.names);
      wrap(out, markdown(entry.text), 2, entry.names.size() + 6, 120);
    };
    bool hasArguments = std::ranges::any_of(entries, &Entry::isPositional);
    out += hasArguments ? "\n" : "";
    for (const Entry &entry : entries)
      if (entry.isPositional)
        add(entry);
    for (const std::string &group : groupsOf(entries)) {
      out += fmt::format("\n{}:\n\n", group);
      for (const Entry &entry : entries)
        if (!entry.isPositional && entry.group == group)
          add(entry);
    }
  }
  std::string codes = tool.get_footer();
  std::ranges::replace(codes, '\n', ' ');
  out += '\n';
  wrap(out, markdown(codes), 0, 0, 120);
  return out;
}

namespace {
std::vector<std::string> namesOf(const CLI::App &app) {
  std::vector<std::string> names;
  for (const Entry &entry : entriesOf(app)) {
    names.insert(names.end(), entry.shortNames.begin(), entry.shortNames.end());
    names.insert(names.end(), entry.longNames.begin(), entry.longNames.end());
  }
  return names;
}

std::vector<std::string> commandNames(const CLI::App &tool) {
  std::vector<std::string> names;
  for (const CLI::App *command : commandsOf(tool))
    names.push_back(command->get_name());
  return names;
}

/// Returns the short and long names of an option as a shell pattern.
std::string pattern(const Entry &entry) {
  std::vector<std::string> names = entry.shortNames;
  names.insert(names.end(), entry.longNames.begin(), entry.longNames.end());
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string bashScript(const CLI::App &tool) {
  std::string name = tool.get_name();
  std::string out =
      fmt::format("_{0}() {{\n"
                  "  local word=${{COMP_WORDS[COMP_CWORD]}} "
                  "last=${{COMP_WORDS[COMP_CWORD-1]}}\n"
                  "  COMPREPLY=()\n"
                  "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
                  "    COMPREPLY=($(compgen -W '{1}' -- \"$word\"))\n"
                  "    return\n"
                  "  fi\n"
                  "  case \"${{COMP_WORDS[1]}}\" in\n",
                  name, fmt::join(commandNames(tool), " "));
  for (const CLI::App *command : commandsOf(tool)) {
    out += fmt::format("  {})\n    case \"$last\" in\n", command->get_name());
    for (const Entry &entry : entriesOf(*command)) {
      if (entry.isPositional || !entry.hasValue)
        continue;
      out += entry.words.empty()
                 ? fmt::format("    {}) return ;;\n", pattern(entry))
                 : fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- "
                               "\"$word\")); return ;;\n",
                               pattern(entry), fmt::join(entry.words, " "));
    }
    out +=
        fmt::format("    esac\n    [[ $word == -* ]] && COMPREPLY=($(compgen "
                    "-W '{}' -- \"$word\")) ;;\n",
                    fmt::join(namesOf(*command), " "));
  }
  return out +
         fmt::format("  esac\n}}\ncomplete -o default -F _{0} {0}\n", name);
}

/// zsh uses bash's script, which is either sourced or loaded as a file of its
/// functions. In the second case the first completion loads the file and must
/// then still be done.
std::string zshScript(const CLI::App &tool) {
  return fmt::format("#compdef {0}\n"
                     "autoload -U +X bashcompinit && bashcompinit\n"
                     "{1}"
                     "if [ \"$funcstack[1]\" = _{0} ]; then\n"
                     "  _bash_complete -o default -F _{0}\n"
                     "fi\n",
                     tool.get_name(), bashScript(tool));
}

std::string fishScript(const CLI::App &tool) {
  std::string name = tool.get_name();
  auto quoted = [](std::string_view text) {
    std::string result = "'";
    for (char c : text)
      result +=
          c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return result + "'";
  };
  std::string out;
  for (const CLI::App *command : commandsOf(tool)) {
    out += fmt::format(
        "complete -c {} -n __fish_use_subcommand -f -a {} -d {}\n", name,
        command->get_name(), quoted(command->get_description()));
    for (const Entry &entry : entriesOf(*command)) {
      if (entry.isPositional)
        continue;
      out += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'",
                         name, command->get_name());
      for (const std::string &letter : entry.shortNames)
        out += " -s " + letter.substr(1);
      for (const std::string &word : entry.longNames)
        out += " -l " + word.substr(2);
      if (entry.hasValue)
        out += " -r";
      if (!entry.words.empty())
        out += fmt::format(" -f -a '{}'", fmt::join(entry.words, " "));
      out += " -d " + quoted(entry.text) + "\n";
    }
  }
  return out;
}
} // namespace

std::string completionScript(const CLI::App &tool, Shell shell) {
  switch (shell) {
  case Shell::Bash:
    return bashScript(tool);
  case Shell::Zsh:
    return zshScript(tool);
  case Shell::Fish:
    return fishScript(tool);
  }
  return "";
}

} // namespace moetool
