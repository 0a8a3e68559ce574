#include "runtime/chat/JsonScanner.h"

namespace moert {

namespace {
bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isHex(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
} // namespace

void JsonScanner::endValue() {
  lexeme_ = Lexeme::None;
  expects_ = open_.empty() ? Expects::Nothing : Expects::CommaOrEnd;
}

bool JsonScanner::inString(char c) {
  if (hexLeft_ > 0) {
    --hexLeft_;
    return isHex(c);
  }
  if (isEscaped_) {
    isEscaped_ = false;
    hexLeft_ = c == 'u' ? 4 : 0;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos;
  }
  if (c == '"') {
    if (isKey_) {
      lexeme_ = Lexeme::None;
      expects_ = Expects::Colon;
    } else {
      endValue();
    }
  }
  isEscaped_ = c == '\\';
  return uint8_t(c) >= 0x20;
}

bool JsonScanner::inNumber(char c) {
  if (isDigit(c)) {
    switch (digits_) {
    case Digits::Minus:
      digits_ = c == '0' ? Digits::Zero : Digits::Whole;
      return true;
    case Digits::Zero:
      return false;
    case Digits::Point:
      digits_ = Digits::Fraction;
      return true;
    case Digits::E:
    case Digits::Sign:
      digits_ = Digits::Exponent;
      return true;
    default:
      return true;
    }
  }
  bool isWhole = digits_ == Digits::Zero || digits_ == Digits::Whole;
  if (c == '.' && isWhole) {
    digits_ = Digits::Point;
    return true;
  }
  if ((c == 'e' || c == 'E') && (isWhole || digits_ == Digits::Fraction)) {
    digits_ = Digits::E;
    return true;
  }
  if ((c == '+' || c == '-') && digits_ == Digits::E) {
    digits_ = Digits::Sign;
    return true;
  }
  // The byte after a number is a part of what follows.
  if (!isWhole && digits_ != Digits::Fraction && digits_ != Digits::Exponent)
    return false;
  endValue();
  return push(c);
}

bool JsonScanner::begin(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMostNesting)
      return false;
    open_.push_back(c);
    expects_ = c == '{' ? Expects::KeyOrEnd : Expects::ValueOrEnd;
    return true;
  }
  if (c == '"') {
    lexeme_ = Lexeme::String;
    isKey_ = false;
    return true;
  }
  if (c == '-' || isDigit(c)) {
    lexeme_ = Lexeme::Number;
    digits_ = c == '-'   ? Digits::Minus
              : c == '0' ? Digits::Zero
                         : Digits::Whole;
    return true;
  }
  for (std::string_view word : {"true", "false", "null"})
    if (c == word[0]) {
      lexeme_ = Lexeme::Word;
      wordLeft_ = word.substr(1);
      return true;
    }
  return false;
}

bool JsonScanner::close(char c) {
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '['))
    return false;
  open_.pop_back();
  endValue();
  return true;
}

bool JsonScanner::push(char c) {
  switch (lexeme_) {
  case Lexeme::String:
    return inString(c);
  case Lexeme::Number:
    return inNumber(c);
  case Lexeme::Word:
    if (c != wordLeft_[0])
      return false;
    wordLeft_.remove_prefix(1);
    if (wordLeft_.empty())
      endValue();
    return true;
  case Lexeme::None:
    break;
  }
  if (isBlank(c))
    return true;
  bool isClosing = c == '}' || c == ']';
  switch (expects_) {
  case Expects::Value:
    return begin(c);
  case Expects::ValueOrEnd:
    return isClosing ? close(c) : begin(c);
  case Expects::Key:
  case Expects::KeyOrEnd:
    if (isClosing && expects_ == Expects::KeyOrEnd)
      return close(c);
    lexeme_ = Lexeme::String;
    isKey_ = true;
    return c == '"';
  case Expects::Colon:
    expects_ = Expects::Value;
    return c == ':';
  case Expects::CommaOrEnd:
    if (isClosing)
      return close(c);
    expects_ = open_.back() == '{' ? Expects::Key : Expects::Value;
    return c == ',';
  case Expects::Nothing:
    return false;
  }
  return false;
}

} // namespace moert
