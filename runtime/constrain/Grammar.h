//===- Grammar.h - Context-free grammars over Unicode text ------*- C++ -*-===//
//
// What output may be, before it becomes an automaton over bytes. GBNF texts
// (Gbnf.h), regular expressions (Regex.h), lists of choices and JSON schemas
// (JsonSchema.h) are all translated into a Grammar.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_GRAMMAR_H
#define MOE_RUNTIME_CONSTRAIN_GRAMMAR_H

#include "runtime/base/Status.h"
#include "runtime/constrain/CharSet.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moert {

/// An expression or a rule of a Grammar, by its index.
using ExprId = int32_t;
using RuleId = int32_t;

/// A grammar's text has at most this many repetitions by count, such as 3 and
/// 7 in x{3,7}: each is a copy of the repeated expression in the automaton.
inline constexpr int32_t kMaxRepetitions = 4096;

/// One node of an expression.
struct Expr {
  enum class Kind : uint8_t {
    Bytes,    ///< The text `bytes`.
    Chars,    ///< One code point of `chars`.
    Sequence, ///< All of `parts`, in order; none: the empty text.
    Choice,   ///< One of `parts`, which are not empty.
    Repeat,   ///< parts[0], from `least` to `most` times.
    Rule,     ///< The rule `rule`.
  };
  Kind kind;
  std::string bytes = {};
  CharSet chars = {};
  std::vector<ExprId> parts = {};
  int32_t least = 0, most = 0; ///< kUnbounded: no upper limit.
  RuleId rule = -1;

  static constexpr int32_t kUnbounded = -1;
};

/// Rules, the first of which describes the whole text. A translator declares
/// each rule, then defines it once.
class Grammar {
public:
  ExprId bytes(std::string text);
  ExprId chars(CharSet set);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  ExprId repeat(ExprId part, int32_t least, int32_t most);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId rule(RuleId id);
  ExprId empty() { return sequence({}); }
  /// The whole text of another grammar, whose rules are added under names of
  /// their own that begin with `prefix`.
  ExprId embed(const Grammar &other, const std::string &prefix);

  /// Returns the rule of this name, which it adds if there is none.
  RuleId declare(const std::string &name);
  void define(RuleId id, ExprId body) { rules_[size_t(id)].body = body; }
  bool isDefined(RuleId id) const { return rules_[size_t(id)].body >= 0; }

  const Expr &operator[](ExprId id) const { return exprs_[size_t(id)]; }
  ExprId body(RuleId id) const { return rules_[size_t(id)].body; }
  const std::string &name(RuleId id) const { return rules_[size_t(id)].name; }
  RuleId ruleCount() const { return RuleId(rules_.size()); }

  /// Fails with Usage, naming the rule, if a rule that the first one reaches is
  /// not defined, is left-recursive, or can never end.
  Status check() const;

private:
  ExprId add(Expr expr);

  struct NamedRule {
    std::string name;
    ExprId body = -1;
  };
  std::vector<Expr> exprs_;
  std::vector<NamedRule> rules_;
  std::map<std::string, RuleId> ids_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_GRAMMAR_H
