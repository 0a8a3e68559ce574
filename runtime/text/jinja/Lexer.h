//===- Lexer.h - Splits a template into tokens ------------------*- C++ -*-===//
//
// Jinja's lexer with trim_blocks and lstrip_blocks, as Hugging Face sets them:
// a line end after a block tag or comment is removed, as are blanks between the
// start of a line and such a tag. "-" at the end of a tag removes all blanks on
// that side, "+" keeps them.
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

/// Returns the tokens of valid UTF-8, ending with one of type End. Errors give
/// the position of an invalid token or an unterminated tag.
StatusOr<std::vector<Token>> tokenize(std::string_view source);

/// Returns an error at a position in the template.
Status failureAt(Place place, std::string message);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_LEXER_H
