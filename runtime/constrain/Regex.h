//===- Regex.h - Regular expressions as grammars ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_REGEX_H
#define MOE_RUNTIME_CONSTRAIN_REGEX_H

#include "runtime/constrain/Grammar.h"

#include <functional>
#include <string_view>

namespace moert {

/// How an expression matches a text without ^ and $: a search in the text, as
/// JSON Schema's `pattern` is, or the whole text.
enum class RegexMatch { Anywhere, Whole };

/// Returns the expression of a set of characters, which a translator may write
/// differently in its text: JSON strings have escapes.
using CharWriter = std::function<ExprId(Grammar &, const CharSet &)>;

/// Adds a regular expression to a grammar. Understood are the parts of ECMA-262
/// that are regular: literals, ., [...], \d \w \s and their complements, \t \n
/// \v \f \r \xHH \uHHHH \u{H...}, (...), (?:...), |, * + ? {n,m} (lazy ones
/// match the same texts), and ^ and $ at the ends of the whole expression or of
/// its alternatives. `.` is every character but line ends. Fails with Usage and
/// a position for others, such as \1, \b and (?=...).
StatusOr<ExprId> addRegex(Grammar &grammar, std::string_view pattern,
                          RegexMatch match, const CharWriter &write);

/// Returns the grammar of the texts that match as a whole.
StatusOr<Grammar> parseRegex(std::string_view pattern);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_REGEX_H
