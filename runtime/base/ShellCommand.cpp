#include "runtime/base/ShellCommand.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace moert {

namespace {
bool isPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') ||
         std::string_view("_-+=./:,@%").find(c) != std::string_view::npos;
}

/// Whether a terminal may get it as it is, in one line.
bool isShown(std::string_view word) {
  return word.find_first_of("\n\t") == std::string_view::npos &&
         terminalSafe(word) == word;
}

std::string printfWord(std::string_view word) {
  std::string result = "\"$(printf '";
  for (char c : word)
    if (c == '%')
      result += "%%";
    else if (isPlain(c) || c == ' ')
      result += c;
    else
      fmt::format_to(std::back_inserter(result), "\\{:03o}",
                     static_cast<unsigned char>(c));
  return result + "')\"";
}
} // namespace

std::string shellWord(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, isPlain))
    return std::string(word);
  if (!isShown(word))
    return printfWord(word);
  std::string result = "'";
  for (char c : word)
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  return result + "'";
}

std::string shellPath(std::string_view path) {
  return shellWord(path.starts_with('-') ? "./" + std::string(path)
                                         : std::string(path));
}

std::optional<std::vector<std::string>> shellSplit(std::string_view line) {
  std::vector<std::string> words;
  bool inWord = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      inWord = false;
      continue;
    }
    if (!inWord)
      words.emplace_back();
    inWord = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote == 0) {
      if (++i == line.size())
        return std::nullopt;
      words.back() += line[i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0)
    return std::nullopt;
  return words;
}

std::string suggestionText(Suggestion suggestion, std::string_view detail) {
  constexpr std::string_view texts[] = {
#define MOE_SUGGESTION(name, text) text,
#include "runtime/base/Suggestions.def"
  };
  std::string text(texts[size_t(suggestion)]);
  if (size_t at = text.find("{}"); at != text.npos)
    text.replace(at, 2, detail);
  return text;
}

std::string runLine(Suggestion, std::string_view command) {
  return fmt::format("\n{}{}", kRunLead, command);
}

std::string suggest(Suggestion suggestion, std::string_view command) {
  return suggestionText(suggestion) + runLine(suggestion, command);
}

bool suggestsCommand(std::string_view line) {
  return line.starts_with(kRunLead) || line.starts_with(kRunWithModelLead) ||
         line.starts_with(kNextLead);
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

} // namespace moert
