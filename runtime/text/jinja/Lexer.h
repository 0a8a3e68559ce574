//===- Lexer.h - A template's tokens ----------------------------*- C++ -*-===//
//
// Jinja's lexer with trim_blocks and lstrip_blocks on, as Hugging Face sets it:
// a line end after a block tag or comment is dropped, and so are blanks between
// a line's start and such a tag. "-" at a tag's end takes all blanks on that
// side, "+" keeps them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_JINJA_LEXER_H
#define MOE_RUNTIME_TEXT_JINJA_LEXER_H

#include "runtime/text/jinja/Ast.h"

namespace moert::jinja {

struct Token {
  enum class Type : uint8_t {
    Text,        ///< Between tags.
    OutputBegin, ///< "{{"
    OutputEnd,
    BlockBegin, ///< "{%"
    BlockEnd,
    Name,
    String, ///< Without quotes, escapes replaced.
    Int,
    Float,
    Operator,
    End,
  };
  Type type;
  Place place;
  std::string text;
  Integer integer = 0;
  double number = 0;
};

/// The tokens of valid UTF-8, the last of type End. Fails with the place of
/// what is no token, or of a tag that does not end.
StatusOr<std::vector<Token>> tokenize(std::string_view source);

/// A failure at a place in the template.
Status failureAt(Place place, std::string message);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_LEXER_H
