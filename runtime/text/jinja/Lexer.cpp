#include "runtime/text/jinja/Lexer.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace moert::jinja {

Status failureAt(Place place, std::string message) {
  return failure("line " + std::to_string(place.line) + ", column " +
                 std::to_string(place.column) + ": " + std::move(message));
}

namespace {

/// Converts line ends to "\n" and removes one at the very end.
std::string normalized(std::string_view source) {
  std::string result;
  for (size_t i = 0; i < source.size(); ++i) {
    char c = source[i];
    if (c == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n')
        ++i;
    } else {
      result += c;
    }
  }
  if (result.ends_with('\n'))
    result.pop_back();
  return result;
}

class Lexer {
public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Status run() {
    while (at_ < source_.size())
      MOE_RETURN_IF_ERROR(readText());
    push(Token::Type::End, "");
    return Status::ok();
  }
  std::vector<Token> tokens;

private:
  std::string_view rest() const {
    return std::string_view(source_).substr(at_);
  }
  bool startsWith(std::string_view text) const {
    return rest().starts_with(text);
  }
  void advance(size_t bytes) {
    for (size_t end = std::min(at_ + bytes, source_.size()); at_ < end; ++at_)
      if (source_[at_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
  }
  void skipSpace() {
    std::string_view all = rest();
    advance(all.size() - strip(all, nullptr, true, false).size());
  }
  Token &push(Token::Type type, std::string text) {
    tokens.push_back({type, place_, std::move(text), 0, 0});
    return tokens.back();
  }

  Status readText();
  void pushText(std::string_view text, char sign, bool isOutput);
  Status readComment();
  Status readRaw(size_t tagSize);
  size_t rawTagSize(std::string_view name) const;
  Status readTag(bool isOutput);
  bool readTagEnd(bool isOutput);
  Status readToken();
  Status readString();
  bool readNumber();
  bool readDigits(size_t &i, std::string &digits) const;

  std::string source_;
  size_t at_ = 0;
  Place place_;
  bool startsLine_ = true; ///< Whether the previous tag ended with a line end.
  std::string open_;       ///< Stack of open brackets.
};

/// Adds the text before a tag, trimmed according to the tag's sign.
void Lexer::pushText(std::string_view text, char sign, bool isOutput) {
  if (sign == '-') {
    text = strip(text, nullptr, false, true);
  } else if (sign != '+' && !isOutput) {
    size_t line = text.rfind('\n') + 1; // On the first line, npos + 1 is 0.
    bool isLine = line > 0 || startsLine_;
    if (isLine && strip(text.substr(line), nullptr, true, true).empty())
      text = text.substr(0, line);
  }
  if (!text.empty())
    push(Token::Type::Text, std::string(text));
}

/// Returns the length of "{% name %}" here, with blanks after "-%}"; 0 if it is
/// not here.
size_t Lexer::rawTagSize(std::string_view name) const {
  std::string_view text = rest();
  auto skip = [&](size_t i) {
    return text.size() - strip(text.substr(i), nullptr, true, false).size();
  };
  size_t i = 2;
  if (i < text.size() && (text[i] == '-' || text[i] == '+'))
    ++i;
  i = skip(i);
  if (!text.substr(i).starts_with(name))
    return 0;
  i = skip(i + name.size());
  if (text.substr(i).starts_with("-%}"))
    return skip(i + 3);
  if (name == "endraw") {
    if (text.substr(i).starts_with("+%}"))
      return i + 3;
    bool hasLine = text.substr(i).starts_with("%}\n");
    return text.substr(i).starts_with("%}") ? i + 2 + hasLine : 0;
  }
  return text.substr(i).starts_with("%}") ? i + 2 : 0;
}

Status Lexer::readText() {
  size_t tag = at_;
  while ((tag = source_.find('{', tag)) != std::string::npos) {
    char kind = tag + 1 < source_.size() ? source_[tag + 1] : 0;
    if (kind == '{' || kind == '%' || kind == '#')
      break;
    ++tag;
  }
  if (tag == std::string::npos) {
    push(Token::Type::Text, std::string(rest()));
    advance(source_.size());
    return Status::ok();
  }
  char kind = source_[tag + 1];
  char sign = tag + 2 < source_.size() ? source_[tag + 2] : 0;
  pushText(rest().substr(0, tag - at_), sign, kind == '{');
  advance(tag - at_);
  if (kind == '#')
    return readComment();
  if (kind == '%')
    if (size_t size = rawTagSize("raw"))
      return readRaw(size);
  return readTag(kind == '{');
}

Status Lexer::readComment() {
  Place begin = place_;
  size_t end = source_.find("#}", at_ + 2);
  if (end == std::string::npos)
    return failureAt(begin, "the comment does not end: no '#}' follows '{#'");
  bool strips = end > at_ + 2 && source_[end - 1] == '-';
  bool keeps = end > at_ + 2 && source_[end - 1] == '+';
  advance(end + 2 - at_);
  if (strips)
    skipSpace();
  else if (!keeps && startsWith("\n"))
    advance(1);
  startsLine_ = source_[at_ - 1] == '\n';
  return Status::ok();
}

Status Lexer::readRaw(size_t tagSize) {
  Place begin = place_;
  advance(tagSize);
  size_t start = at_;
  startsLine_ = source_[at_ - 1] == '\n';
  size_t saved = at_;
  for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos;
       ++tag) {
    at_ = tag;
    size_t size = rawTagSize("endraw");
    at_ = saved;
    if (size == 0)
      continue;
    pushText(std::string_view(source_).substr(start, tag - start),
             source_[tag + 2], false);
    advance(tag + size - at_);
    startsLine_ = source_[at_ - 1] == '\n';
    return Status::ok();
  }
  return failureAt(begin, "the raw block does not end: no '{% endraw %}'");
}

/// Consumes the end of a tag if it is here, with the trimming it requests.
bool Lexer::readTagEnd(bool isOutput) {
  std::string_view close = isOutput ? "}}" : "%}";
  bool strips = startsWith("-") && rest().substr(1).starts_with(close);
  bool keeps =
      !isOutput && startsWith("+") && rest().substr(1).starts_with(close);
  if (!strips && !keeps && !startsWith(close))
    return false;
  push(isOutput ? Token::Type::OutputEnd : Token::Type::BlockEnd, "");
  advance(2 + (strips || keeps));
  if (strips)
    skipSpace();
  else if (!keeps && !isOutput && startsWith("\n"))
    advance(1);
  startsLine_ = source_[at_ - 1] == '\n';
  return true;
}

Status Lexer::readTag(bool isOutput) {
  Place begin = place_;
  push(isOutput ? Token::Type::OutputBegin : Token::Type::BlockBegin, "");
  advance(2);
  if (startsWith("-") || startsWith("+"))
    advance(1);
  open_.clear();
  while (true) {
    if (open_.empty() && readTagEnd(isOutput))
      return Status::ok();
    if (at_ == source_.size())
      return failureAt(
          begin, isOutput ? "the output does not end: no '}}' follows '{{'"
                          : "the tag does not end: no '%}' follows '{%'");
    char32_t c =
        decodeUtf8(&source_[at_],
                   static_cast<unsigned>(nextCharacter(source_, at_) - at_));
    if (isSpace(c)) {
      skipSpace();
      continue;
    }
    MOE_RETURN_IF_ERROR(readToken());
  }
}

/// Reads digits, which may have single underscores between them.
bool Lexer::readDigits(size_t &i, std::string &digits) const {
  auto isDigit = [&](size_t at) {
    return at < source_.size() && source_[at] >= '0' && source_[at] <= '9';
  };
  if (!isDigit(i))
    return false;
  while (isDigit(i) ||
         (i < source_.size() && source_[i] == '_' && isDigit(i + 1)))
    if (source_[i++] != '_')
      digits += source_[i - 1];
  return true;
}

bool Lexer::readNumber() {
  size_t i = at_;
  std::string digits;
  char radix = i + 1 < source_.size() && source_[i] == '0'
                   ? static_cast<char>(source_[i + 1] | 0x20)
                   : 0;
  if (radix == 'x' || radix == 'o' || radix == 'b') {
    int base = radix == 'x' ? 16 : radix == 'o' ? 8 : 2;
    for (i += 2; i < source_.size(); ++i) {
      char c = source_[i];
      if (c == '_')
        continue;
      uint64_t digit = 0;
      if (std::from_chars(&c, &c + 1, digit, base).ec != std::errc())
        break;
      digits += c;
    }
    uint64_t value = 0;
    auto [_, error] = std::from_chars(
        digits.data(), digits.data() + digits.size(), value, base);
    if (digits.empty() || error != std::errc())
      return false;
    Token &token = push(Token::Type::Int, digits);
    token.integer = value;
    advance(i - at_);
    return true;
  }
  if (!readDigits(i, digits))
    return false;
  bool isFloat = false;
  size_t mark = i;
  std::string part = ".";
  if (mark < source_.size() && source_[mark] == '.' &&
      readDigits(++mark, part)) {
    digits += part;
    i = mark;
    isFloat = true;
  }
  mark = i;
  if (mark < source_.size() && (source_[mark] | 0x20) == 'e') {
    part = "e";
    ++mark;
    if (mark < source_.size() && (source_[mark] == '-' || source_[mark] == '+'))
      part += source_[mark++];
    if (readDigits(mark, part)) {
      // from_chars does not accept a plus sign.
      std::erase(part, '+');
      digits += part;
      i = mark;
      isFloat = true;
    }
  }
  Token &token = push(isFloat ? Token::Type::Float : Token::Type::Int, digits);
  if (isFloat) {
    auto [_, error] = std::from_chars(
        digits.data(), digits.data() + digits.size(), token.number);
    if (error == std::errc::result_out_of_range)
      token.number = part.find('-') == std::string::npos ? HUGE_VAL : 0;
  } else {
    for (char c : digits)
      if (__builtin_mul_overflow(token.integer, Integer(10), &token.integer) ||
          __builtin_add_overflow(token.integer, Integer(c - '0'),
                                 &token.integer)) {
        tokens.pop_back();
        return false;
      }
  }
  advance(i - at_);
  return true;
}

Status Lexer::readString() {
  Place begin = place_;
  char quote = source_[at_];
  std::string text;
  size_t i = at_ + 1;
  auto hex = [&](size_t digits, uint32_t &value) {
    value = 0;
    if (i + digits > source_.size())
      return false;
    const char *from = source_.data() + i;
    auto [end, error] = std::from_chars(from, from + digits, value, 16);
    return error == std::errc() && end == from + digits;
  };
  while (true) {
    if (i >= source_.size())
      return failureAt(begin, std::string("the string does not end: no ") +
                                  quote + " follows");
    char c = source_[i++];
    if (c == quote)
      break;
    if (c != '\\' || i >= source_.size()) {
      text += c;
      continue;
    }
    char escaped = source_[i++];
    constexpr std::string_view from = "abfnrtv\\'\"",
                               to = "\a\b\f\n\r\t\v\\'\"";
    size_t simple = from.find(escaped);
    uint32_t code = 0;
    if (simple != std::string_view::npos) {
      text += to[simple];
    } else if (escaped == '\n') {
      // The line continues after a backslash.
    } else if (escaped == 'x' || escaped == 'u' || escaped == 'U') {
      size_t digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8;
      if (!hex(digits, code) || code > 0x10FFFF)
        return failureAt(begin, std::string("the string has an escape \\") +
                                    escaped + " without its " +
                                    std::to_string(digits) + " digits");
      i += digits;
      appendCharacter(text, code);
    } else if (escaped >= '0' && escaped <= '7') {
      code = static_cast<uint32_t>(escaped - '0');
      for (int n = 0; n < 2 && i < source_.size() && source_[i] >= '0' &&
                      source_[i] <= '7';
           ++n)
        code = 8 * code + static_cast<uint32_t>(source_[i++] - '0');
      appendCharacter(text, code);
    } else {
      text += '\\';
      text += escaped;
    }
  }
  push(Token::Type::String, std::move(text));
  advance(i - at_);
  return Status::ok();
}

Status Lexer::readToken() {
  char c = source_[at_];
  if (c == '\'' || c == '"')
    return readString();
  if (c >= '0' && c <= '9') {
    if (readNumber())
      return Status::ok();
    return failureAt(place_, "the number is malformed or too large");
  }
  size_t end = at_;
  while (end < source_.size()) {
    size_t next = nextCharacter(source_, end);
    if (!isWord(decodeUtf8(&source_[end], static_cast<unsigned>(next - end))))
      break;
    end = next;
  }
  if (end > at_) {
    push(Token::Type::Name, source_.substr(at_, end - at_));
    advance(end - at_);
    return Status::ok();
  }
  for (std::string_view op : {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                              "/",  "%",  ">",  "<",  "=",  ".",  ":", "|", ",",
                              "~",  "(",  ")",  "[",  "]",  "{",  "}", ";"}) {
    if (!startsWith(op))
      continue;
    char bracket = op[0];
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (size_t which = closing.find(bracket); which != std::string_view::npos) {
      if (open_.empty())
        return failureAt(place_, std::string("unexpected '") + bracket + "'");
      if (open_.back() != opening[which])
        return failureAt(place_, std::string("unexpected '") + bracket +
                                     "', expected '" +
                                     closing[opening.find(open_.back())] + "'");
      open_.pop_back();
    } else if (opening.find(bracket) != std::string_view::npos) {
      open_ += bracket;
    }
    push(Token::Type::Operator, std::string(op));
    advance(op.size());
    return Status::ok();
  }
  return failureAt(
      place_, "unexpected character '" +
                  source_.substr(at_, nextCharacter(source_, at_) - at_) + "'");
}

} // namespace

StatusOr<std::vector<Token>> tokenize(std::string_view source) {
  Lexer lexer(normalized(source));
  MOE_RETURN_IF_ERROR(lexer.run());
  return std::move(lexer.tokens);
}

} // namespace moert::jinja
