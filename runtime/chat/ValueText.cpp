#include "runtime/chat/ValueText.h"

#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/ToolValue.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
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

private:
  void skipBlanks() {
    text_.remove_prefix(
        std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
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
    if (std::optional<std::string> text = string()) {
      json += "\"" + jsonEscaped(*text) + "\"";
      return true;
    }
    return word(json);
  }

  bool items(std::string &json, char close, size_t depth) {
    json += close == '}' ? '{' : '[';
    const std::string_view end(&close, 1);
    for (bool isFirst = true;; isFirst = false) {
      skipBlanks();
      if (take(end)) {
        json += close;
        return true;
      }
      if (!isFirst) {
        if (!take(","))
          return false;
        json += ", ";
        skipBlanks();
        if (take(end))
          return false;
      }
      if (close == '}' && !key(json))
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
    if (notation_ == Notation::Bare) {
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
      if (text_[i] == quote) {
        text_.remove_prefix(i + 1);
        return result;
      }
      if (text_[i] != '\\' || i + 1 == text_.size()) {
        result += text_[i];
        continue;
      }
      const char c = text_[++i];
      result += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    return std::nullopt;
  }

  bool word(std::string &json) {
    constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const std::string_view word =
        text_.substr(0, text_.find_first_of(",]} \t\r\n"));
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

/// Where the mark `close` stands that belongs to an `open` before `from`.
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

std::optional<std::string> jsonOfNested(std::string_view text,
                                        std::string_view prefix,
                                        const Json &schema, const Json &root) {
  return nested(text, prefix, schema, root, 0);
}

} // namespace moert
