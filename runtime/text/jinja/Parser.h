//===- Parser.h - From tokens to a tree -------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_JINJA_PARSER_H
#define MOE_RUNTIME_TEXT_JINJA_PARSER_H

#include "runtime/text/jinja/Ast.h"

namespace moert::jinja {

/// The template's tree. Fails with line, column and what was expected there;
/// for nesting of more than `depth`; and for tags that Jinja or Hugging Face
/// have, but this does not (extends, include, import).
StatusOr<Body> parse(std::string_view source, uint32_t depth);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_PARSER_H
