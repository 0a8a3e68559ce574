//===- Regex.h - Regular expressions ----------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_REGEX_H
#define MOE_RUNTIME_CONSTRAIN_REGEX_H

#include "runtime/constrain/Grammar.h"
#include "runtime/constrain/TextDfa.h"

#include <optional>
#include <string_view>

namespace moert {

/// How an expression matches a text: a search in the text, as JSON Schema's
/// `pattern` is, or the whole text.
enum class RegexMatch { Anywhere, Whole };

/// An expression that PCRE2 matches, for what no automaton can. Threads may
/// share it.
class BacktrackingRegex {
public:
  /// Fails with Usage and a position.
  static StatusOr<std::shared_ptr<const BacktrackingRegex>>
  compile(std::string_view pattern, RegexMatch match);
  ~BacktrackingRegex();

  /// Returns whether a text, which is UTF-8, matches, and false if that takes
  /// more than a limit of steps. The limit is lower for long expressions,
  /// because a step may pass over all of the expression.
  bool matches(std::string_view text) const;

  /// Work of all matches on this thread so far, in units of about 100 ns. Who
  /// has a budget takes the difference.
  static uint64_t workOfThread();

private:
  BacktrackingRegex() = default;
  struct Code;
  std::unique_ptr<Code> code_;
  uint32_t mostSteps_ = 0;
  uint64_t bytes_ = 0; ///< Memory of the expression.
};

/// The texts that an expression matches.
struct Pattern {
  /// Every text that matches meets these.
  std::vector<TextCondition> conditions;
  /// Null, or what the texts that meet the conditions must match, too.
  std::shared_ptr<const BacktrackingRegex> rest;

  bool matches(std::string_view text) const;
};

/// Translates a regular expression in the syntax of ECMA-262. Of automata are
/// literals, ., [...], \d \w \s and their complements, \t \n \v \f \r \cX \xHH
/// \uHHHH \u{H...}, (...), (?:...), (?<n>...), |, * + ? {n,m} (lazy ones match
/// the same texts), ^ $ \b \B anywhere, and looking ahead directly after a
/// first ^. `.` is every character but line ends. Other expressions, and those
/// of over 10,000 states, are matched by BacktrackingRegex. Fails with Usage
/// and a position if that does not understand one either.
StatusOr<Pattern> parsePattern(std::string_view pattern, RegexMatch match);

/// Returns the grammar of the texts that match as a whole.
StatusOr<Grammar> parseRegex(std::string_view pattern);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_REGEX_H
