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
#include "runtime/constrain/Scanner.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace moert {

class TextScanner;

/// An expression or a rule of a Grammar, by its index.
using ExprId = int32_t;
using RuleId = int32_t;

/// Most repetitions by count in the text of a grammar or an expression, such
/// as 3 and 7 in x{3,7}.
inline constexpr int32_t kMaxRepetitions = 4096;

/// A condition on a text that an expression has read, for what grammars cannot
/// describe. Immutable; threads may share it.
class TextCheck {
public:
  /// The place where the text begins that is checked.
  enum class Scope : uint8_t {
    Own,      ///< At the beginning of the expression.
    Enclosing ///< At the beginning of the next enclosing check.
  };
  /// `key` says what is checked: checks with equal keys must be equal.
  /// `ofJson`: the text is JSON, in which white space before a bracket changes
  /// nothing.
  TextCheck(std::string key, std::function<bool(std::string_view)> holds,
            Scope scope = Scope::Own, bool ofJson = false)
      : key_(std::move(key)), holds_(std::move(holds)), scope_(scope),
        ofJson_(ofJson) {}

  /// Called where the expression could end, with the text up to there.
  bool holds(std::string_view text) const { return holds_(text); }
  Scope scope() const { return scope_; }
  bool ofJson() const { return ofJson_; }
  bool operator==(const TextCheck &other) const {
    return key_ == other.key_ && scope_ == other.scope_;
  }

private:
  std::string key_;
  std::function<bool(std::string_view)> holds_;
  Scope scope_;
  bool ofJson_;
};

/// One node of an expression.
struct Expr {
  enum class Kind : uint8_t {
    Bytes,    ///< The text `bytes`.
    Chars,    ///< One code point of `chars`.
    Sequence, ///< All of `parts`, in order; none: the empty text.
    Choice,   ///< One of `parts`, which are not empty.
    Repeat,   ///< parts[0], from `least` to `most` times.
    Rule,     ///< The rule `rule`.
    Scan,     ///< A text that `scanner` reads.
    Checked,  ///< parts[0], if `check` holds for the text.
    Series,   ///< The parts of the series number `series`.
  };
  Kind kind;
  std::string bytes = {};
  CharSet chars = {};
  std::vector<ExprId> parts = {};
  int32_t least = 0, most = 0; ///< kUnbounded: no upper limit.
  RuleId rule = -1;
  std::shared_ptr<const Scanner> scanner = {};
  std::shared_ptr<const TextCheck> check = {};
  int32_t series = -1; ///< Index into Grammar::series(); -1: none.

  static constexpr int32_t kUnbounded = -1;
};

/// Parts of a text with separators between them. Their number costs no states:
/// what has been read is kept with the position in the text.
struct Series {
  /// Each of `entries` at most once: in any order, or else in this one, in
  /// which all before the last one must be present.
  std::vector<ExprId> entries = {};
  /// Entries without which the text does not end; only where any order is
  /// allowed. Empty: none, else by entry.
  std::vector<bool> isRequired = {};
  bool isAnyOrder = false;
  /// Parts that may be present any number of times: in any order among the
  /// entries, or else after them. They differ from all entries.
  std::vector<ExprId> rest = {};
  ExprId separator = -1; ///< -1: none.
  ExprId after = -1;     ///< Text after every part; -1: none.
  /// Limits of the number of parts.
  int32_t least = 0, most = Expr::kUnbounded;

  /// Ways to write the name that each entry, and none of the rest, begins with:
  /// scanners of the same list. Empty: they have none. Entries are found by
  /// their names, so that their number does not matter to a text. Only where
  /// any order is allowed.
  std::vector<std::shared_ptr<const TextScanner>> names = {};
  ExprId afterName = -1; ///< Text between a name and its entry.
  /// For each entry: the number of its name in the list, ascending. Different
  /// entries may have the same one where there are variants.
  std::vector<int32_t> nameOf = {};
  /// Sets of entries, of which the entries that a text has must fit one, at
  /// least; by entry, the ascending numbers of those that have it. With
  /// variants, isRequired, least and most say nothing.
  std::vector<std::vector<int32_t>> variantsOf = {};
  /// The same by part of the rest, and these parts without their names: in such
  /// a variant, a name in the list of which it has no entry may come, too.
  std::vector<std::vector<int32_t>> variantsOfRest = {};
  std::vector<ExprId> restAfterName = {};
  /// For each variant: the numbers of the names that it needs. Empty: there are
  /// none.
  std::vector<std::vector<int32_t>> neededNames = {};
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
  ExprId scan(std::shared_ptr<const Scanner> scanner);
  ExprId checked(ExprId part, std::shared_ptr<const TextCheck> check);
  ExprId series(Series series);
  ExprId empty() { return sequence({}); }
  /// The whole text of another grammar, whose rules are added under names of
  /// their own that begin with `prefix`.
  ExprId embed(const Grammar &other, const std::string &prefix);

  /// Returns the rule of this name, which it adds if there is none.
  RuleId declare(const std::string &name);
  void define(RuleId id, ExprId body) { rules_[size_t(id)].body = body; }
  bool isDefined(RuleId id) const { return rules_[size_t(id)].body >= 0; }

  const Expr &operator[](ExprId id) const { return exprs_[size_t(id)]; }
  const Series &series(const Expr &expr) const {
    return series_[size_t(expr.series)];
  }
  ExprId body(RuleId id) const { return rules_[size_t(id)].body; }
  const std::string &name(RuleId id) const { return rules_[size_t(id)].name; }
  RuleId ruleCount() const { return RuleId(rules_.size()); }
  size_t exprCount() const { return exprs_.size(); }

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
  std::vector<Series> series_;
  std::vector<NamedRule> rules_;
  std::map<std::string, RuleId> ids_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_GRAMMAR_H
