//===- Parser.h - Parses templates ------------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_JINJA_PARSER_H
#define MOE_RUNTIME_TEXT_JINJA_PARSER_H

#include "runtime/text/jinja/Ast.h"

namespace moert::jinja {

/// Returns the tree of a template. Fails with line, column and what was
/// expected there; for nesting deeper than `depth`; and for tags of Jinja or
/// Hugging Face that are not supported (extends, include, import).
StatusOr<Body> parse(std::string_view source, uint32_t depth);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_PARSER_H
