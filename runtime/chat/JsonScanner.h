//===- JsonScanner.h - Follows a JSON text byte by byte ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_JSONSCANNER_H
#define MOE_RUNTIME_CHAT_JSONSCANNER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace moert {

/// Checks one JSON value while its text arrives, and tells where it ends. Bytes
/// inside strings are not checked for being UTF-8.
class JsonScanner {
public:
  /// Deeper values are refused.
  static constexpr size_t kMostNesting = 100;

  /// Takes the next byte. False if the text is no JSON, after which the scanner
  /// is of no use. White space after the value is taken too.
  bool push(char byte);

  /// Whether the value, an object, a list or a string, is complete.
  bool isComplete() const { return expects_ == Expects::Nothing; }
  /// How many objects and lists are open.
  size_t depth() const { return open_.size(); }
  bool isInString() const { return lexeme_ == Lexeme::String; }

private:
  enum class Expects : uint8_t {
    Value,
    ValueOrEnd, ///< After a "[".
    Key,
    KeyOrEnd, ///< After a "{".
    Colon,
    CommaOrEnd,
    Nothing,
  };
  enum class Lexeme : uint8_t { None, String, Word, Number };
  enum class Digits : uint8_t {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent
  };

  bool begin(char byte);
  bool close(char bracket);
  bool inString(char byte);
  bool inNumber(char byte);
  void endValue();

  std::vector<char> open_;
  Expects expects_ = Expects::Value;
  Lexeme lexeme_ = Lexeme::None;
  bool isKey_ = false;
  bool isEscaped_ = false;
  int hexLeft_ = 0;
  std::string_view wordLeft_;
  Digits digits_ = Digits::Minus;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_JSONSCANNER_H
