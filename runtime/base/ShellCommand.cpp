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

/// Returns whether the text can be printed on a terminal unchanged, in one
/// line.
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

} // namespace moert
