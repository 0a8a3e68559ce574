#include "runtime/chat/ValueText.h"

#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/ToolValue.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view kBlank = " \t\r\n";

/// Whether a value of Python's may end before `after`.
bool mayEndValue(std::string_view after) {
  const size_t next = after.find_first_not_of(kBlank);
  constexpr std::string_view ends = ",)]}:";
  return next == after.npos || ends.find(after[next]) != ends.npos;
}

/// Reads one value, and what is inside it, from the front of a text. What ends
/// strings and keys is the notation's.
class LiteralReader {
public:
  enum class Notation { Bare, Python };

  LiteralReader(std::string_view text, Notation notation)
      : text_(text), notation_(notation) {}

  std::optional<std::string> run() {
    std::string json;
    if (!value(json, 0))
      return std::nullopt;
    skipBlanks();
    return text_.empty() ? std::optional(std::move(json)) : std::nullopt;
  }

  std::optional<std::string> keywords() {
    std::string json = "{";
    for (bool isFirst = true;; isFirst = false) {
      skipBlanks();
      if (!isFirst && !text_.empty() && !take(","))
        return std::nullopt;
      skipBlanks();
      if (text_.empty())
        return json + "}";
      const size_t end = text_.find_first_of("=,'\"([{");
      if (end == text_.npos || end == 0 || text_[end] != '=')
        return std::nullopt;
      const std::string_view name = text_.substr(0, end);
      json += isFirst ? "\"" : ", \"";
      json += jsonEscaped(name.substr(0, name.find_last_not_of(kBlank) + 1));
      json += "\": ";
      text_.remove_prefix(end + 1);
      if (!value(json, 1))
        return std::nullopt;
    }
  }

private:
  void skipBlanks() {
    text_.remove_prefix(
        std::min(text_.find_first_not_of(kBlank), text_.size()));
  }
  bool take(std::string_view mark) {
    if (!text_.starts_with(mark))
      return false;
    text_.remove_prefix(mark.size());
    return true;
  }

  bool value(std::string &json, size_t depth) {
    skipBlanks();
    if (text_.empty() || depth > JsonScanner::kMostNesting)
      return false;
    if (take("{"))
      return items(json, '}', depth);
    if (take("["))
      return items(json, ']', depth);
    if (notation_ == Notation::Python && take("("))
      return items(json, ')', depth);
    if (std::optional<std::string> text = string()) {
      json += "\"" + jsonEscaped(*text) + "\"";
      return true;
    }
    return word(json);
  }

  bool items(std::string &json, char close, size_t depth) {
    const bool isObject = close == '}';
    json += isObject ? '{' : '[';
    const std::string_view end(&close, 1);
    for (bool isFirst = true;; isFirst = false) {
      skipBlanks();
      bool ends = take(end);
      if (!ends && !isFirst) {
        if (!take(","))
          return false;
        skipBlanks();
        // Python takes a comma behind the last item.
        if (take(end) && !(ends = notation_ == Notation::Python))
          return false;
        json += ends ? "" : ", ";
      }
      if (ends) {
        json += isObject ? '}' : ']';
        return true;
      }
      if (isObject && !key(json))
        return false;
      if (!value(json, depth + 1))
        return false;
    }
  }

  bool key(std::string &json) {
    std::optional<std::string> name = string();
    if (!name && notation_ == Notation::Bare) {
      const size_t end = text_.find(':');
      if (end == text_.npos)
        return false;
      name = std::string(text_.substr(0, end));
      text_.remove_prefix(end);
    }
    skipBlanks();
    if (!name || !take(":"))
      return false;
    json += "\"" + jsonEscaped(*name) + "\": ";
    return true;
  }

  std::optional<std::string> string() {
    // Models that know JSON well fall back on its quotes.
    if (notation_ == Notation::Bare && !text_.starts_with('"')) {
      if (!take(kBareQuote))
        return std::nullopt;
      const size_t end = text_.find(kBareQuote);
      if (end == text_.npos)
        return std::nullopt;
      std::string result(text_.substr(0, end));
      text_.remove_prefix(end + kBareQuote.size());
      return result;
    }
    if (!text_.starts_with('\'') && !text_.starts_with('"'))
      return std::nullopt;
    return pythonString();
  }

  std::optional<std::string> pythonString() {
    const char quote = text_.front();
    std::string result;
    for (size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == quote && mayEndValue(text_.substr(i + 1))) {
        text_.remove_prefix(i + 1);
        return result;
      }
      if (text_[i] != '\\' || i + 1 == text_.size()) {
        result += text_[i];
        continue;
      }
      i += escape(text_.substr(i), result) - 1;
    }
    return std::nullopt;
  }

  /// Adds what an escape at the front of a text means, and returns its size.
  /// What is no escape is the text itself, as in Python.
  static size_t escape(std::string_view text, std::string &result) {
    constexpr std::string_view letters = "ntrbf\\'\"/\n",
                               meant = "\n\t\r\b\f\\'\"/";
    const size_t place = letters.find(text[1]);
    if (place != letters.npos) {
      result += meant.substr(std::min(place, meant.size()), 1);
      return 2;
    }
    // Halves of a pair of surrogates are one character.
    size_t end = 0;
    std::string units;
    auto isHex = [](std::string_view digits) {
      return std::ranges::all_of(
          digits, [](unsigned char c) { return std::isxdigit(c); });
    };
    if (text[1] == 'x' && text.size() >= 4 && isHex(text.substr(2, 2))) {
      units = fmt::format("\\u00{}", text.substr(2, 2));
      end = 4;
    }
    while (text.substr(end).starts_with("\\u") && text.size() >= end + 6 &&
           isHex(text.substr(end + 2, 4))) {
      units += text.substr(end, 6);
      end += 6;
    }
    if (end == 0) {
      result += '\\';
      return 1;
    }
    result += stringOf("\"" + units + "\"");
    return end;
  }

  bool word(std::string &json) {
    constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const std::string_view word =
        text_.substr(0, text_.find_first_of(",]}) \t\r\n"));
    for (auto [written, meant] : words)
      if (word == written) {
        json += meant;
        text_.remove_prefix(word.size());
        return true;
      }
    if (word.empty() || !Json::accept(word))
      return false;
    json += word;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string_view text_;
  Notation notation_;
};

const Json &memberOf(const Json &schema, const std::string &name) {
  static const Json none;
  if (!schema.is_object())
    return none;
  if (auto all = schema.find("properties");
      all != schema.end() && all->is_object() && all->contains(name))
    return (*all)[name];
  auto items = schema.find("items");
  return name == "item" && items != schema.end() ? *items : none;
}

/// Returns the position of the mark `close` that belongs to an `open` before
/// `from`.
size_t closeOf(std::string_view text, std::string_view open,
               std::string_view close, size_t from) {
  for (size_t inside = 0;;) {
    const size_t at = text.find(close, from), other = text.find(open, from);
    if (at == text.npos || (at < other && inside == 0))
      return at;
    inside += other < at ? 1 : size_t(-1);
    from = other < at ? other + open.size() : at + close.size();
  }
}

std::optional<std::string> nested(std::string_view text,
                                  std::string_view prefix, const Json &schema,
                                  const Json &root, size_t depth) {
  const std::string open = std::string(prefix) + "<";
  auto trimmed = [](std::string_view all) {
    const size_t first = std::min(all.find_first_not_of(" \t\r\n"), all.size());
    all.remove_prefix(first);
    return all.substr(0, all.find_last_not_of(" \t\r\n") + 1);
  };
  if (depth > JsonScanner::kMostNesting)
    return std::nullopt;
  if (!trimmed(text).starts_with(open))
    return valueJson(schema, root, text);
  text = trimmed(text);
  std::string members, items;
  bool isList = true;
  while (!text.empty()) {
    if (!text.starts_with(open))
      return std::nullopt;
    const size_t end = text.find('>', open.size());
    if (end == text.npos)
      return std::nullopt;
    const std::string name(text.substr(open.size(), end - open.size()));
    const std::string close = open + "/" + name + ">";
    const size_t at = closeOf(text, open + name + ">", close, end + 1);
    if (at == text.npos)
      return std::nullopt;
    auto inside = nested(text.substr(end + 1, at - end - 1), prefix,
                         memberOf(schema, name), root, depth + 1);
    if (!inside)
      return std::nullopt;
    isList = isList && name == "item";
    members += (members.empty() ? "\"" : ", \"") + jsonEscaped(name) +
               "\": " + *inside;
    items += (items.empty() ? "" : ", ") + *inside;
    text = trimmed(text.substr(at + close.size()));
  }
  return isList ? "[" + items + "]" : "{" + members + "}";
}
} // namespace

std::optional<std::string> jsonOfBare(std::string_view text) {
  return LiteralReader(text, LiteralReader::Notation::Bare).run();
}

std::optional<std::string> jsonOfPython(std::string_view text) {
  return LiteralReader(text, LiteralReader::Notation::Python).run();
}

std::optional<std::string> jsonOfKeywords(std::string_view text) {
  return LiteralReader(text, LiteralReader::Notation::Python).keywords();
}

size_t KeywordScanner::find(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (quote_ != 0) {
      if (c == '\\' && at_ + 1 == text.size())
        return text.npos;
      if (c == '\\') {
        ++at_;
        continue;
      }
      if (c != quote_)
        continue;
      // The text after a quote tells whether the quote belongs to the value.
      const std::string_view after = text.substr(at_ + 1);
      if (after.find_first_not_of(kBlank) == after.npos)
        return text.npos;
      if (mayEndValue(after))
        quote_ = 0;
      continue;
    }
    if (c == '\'' || c == '"')
      quote_ = c;
    else if (c == '(' || c == '[' || c == '{')
      ++depth_;
    else if (c == ')' && depth_ == 0)
      return at_;
    else if ((c == ')' || c == ']' || c == '}') && depth_ > 0)
      --depth_;
  }
  return text.npos;
}

std::optional<std::string> jsonOfNested(std::string_view text,
                                        std::string_view prefix,
                                        const Json &schema, const Json &root) {
  return nested(text, prefix, schema, root, 0);
}

} // namespace moert
