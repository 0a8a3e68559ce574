#include "runtime/constrain/RegularRules.h"

#include "runtime/base/Utf8.h"
#include "runtime/constrain/TextScanner.h"

#include <algorithm>

namespace moert {

namespace {
/// States of a rule's automaton, and rules that call each other.
constexpr size_t kMostRuleStates = 2000;
constexpr int kDeepestCall = 16;
/// Characters of a set that make a repetition of it free text.
constexpr uint32_t kManyChars = 64;

/// Builds the automaton of a rule with those that it calls written out.
class RuleNfa {
public:
  explicit RuleNfa(const Grammar &grammar) : grammar_(grammar) {}

  std::shared_ptr<const CharNfa> run(RuleId rule) {
    const int32_t start = nfa_.addState(), end = nfa_.addState();
    nfa_.setEnds(start, end);
    addRule(rule, start, end, 0);
    if (!isRegular_ || !hasFreeText_)
      return nullptr;
    return std::make_shared<const CharNfa>(std::move(nfa_));
  }

private:
  void addRule(RuleId rule, int32_t from, int32_t to, int calls) {
    isRegular_ &= calls < kDeepestCall && grammar_.isDefined(rule);
    if (isRegular_)
      add(grammar_.body(rule), from, to, calls + 1);
  }

  void add(ExprId id, int32_t from, int32_t to, int calls) {
    isRegular_ &= nfa_.stateCount() <= kMostRuleStates;
    if (!isRegular_)
      return;
    const Expr &expr = grammar_[id];
    switch (expr.kind) {
    case Expr::Kind::Bytes:
      addBytes(expr.bytes, from, to);
      return;
    case Expr::Kind::Chars:
      nfa_.addChars(from, expr.chars, to);
      return;
    case Expr::Kind::Sequence:
      for (ExprId part : expr.parts) {
        const int32_t next = nfa_.addState();
        add(part, from, next, calls);
        from = next;
      }
      nfa_.addEdge(from, CharNfa::kFree, to);
      return;
    case Expr::Kind::Choice:
      for (ExprId part : expr.parts) {
        const int32_t begin = nfa_.addState();
        nfa_.addEdge(from, CharNfa::kFree, begin);
        add(part, begin, to, calls);
      }
      return;
    case Expr::Kind::Repeat:
      addRepeat(expr, from, to, calls);
      return;
    case Expr::Kind::Rule:
      addRule(expr.rule, from, to, calls);
      return;
    case Expr::Kind::Scan:
    case Expr::Kind::Checked:
    case Expr::Kind::Series:
      isRegular_ = false;
      return;
    }
  }

  void addBytes(const std::string &bytes, int32_t from, int32_t to) {
    isRegular_ &= validUtf8Prefix(bytes) == bytes.size();
    if (!isRegular_)
      return;
    for (uint32_t c : codePointsOf(bytes)) {
      const int32_t next = nfa_.addState();
      nfa_.addChars(from, CharSet::only(c), next);
      from = next;
    }
    nfa_.addEdge(from, CharNfa::kFree, to);
  }

  void addRepeat(const Expr &expr, int32_t from, int32_t to, int calls) {
    const ExprId part = expr.parts[0];
    if (expr.most == Expr::kUnbounded || expr.most > 1)
      hasFreeText_ |= isFree(part);
    for (int32_t i = 0; i < expr.least && isRegular_; ++i) {
      const int32_t next = nfa_.addState();
      add(part, from, next, calls);
      from = next;
    }
    if (expr.most == Expr::kUnbounded) {
      const int32_t loop = nfa_.addState(), back = nfa_.addState();
      nfa_.addEdge(from, CharNfa::kFree, loop);
      add(part, loop, back, calls);
      nfa_.addEdge(back, CharNfa::kFree, loop);
      from = loop;
    }
    for (int32_t i = expr.least; i < expr.most && isRegular_; ++i) {
      const int32_t begin = nfa_.addState(), next = nfa_.addState();
      nfa_.addEdge(from, CharNfa::kFree, begin);
      nfa_.addEdge(from, CharNfa::kFree, to);
      add(part, begin, next, calls);
      from = next;
    }
    nfa_.addEdge(from, CharNfa::kFree, to);
  }

  /// Whether a part is many different characters, or a choice of them and
  /// others.
  bool isFree(ExprId id) const {
    const Expr &expr = grammar_[id];
    if (expr.kind == Expr::Kind::Choice)
      return std::ranges::any_of(expr.parts,
                                 [&](ExprId part) { return isFree(part); });
    uint32_t count = 0;
    for (CharSet::Range range : expr.chars.ranges())
      count += range.last - range.first + 1;
    return expr.kind == Expr::Kind::Chars && count >= kManyChars;
  }

  const Grammar &grammar_;
  CharNfa nfa_;
  bool isRegular_ = true, hasFreeText_ = false;
};
} // namespace

std::shared_ptr<const Scanner> scannerOfRule(const Grammar &grammar,
                                             RuleId rule) {
  std::shared_ptr<const CharNfa> nfa = RuleNfa(grammar).run(rule);
  if (!nfa)
    return nullptr;
  return TextScanner::create(
      {.conditions = {{.nfa = std::move(nfa)}}, .isJson = false});
}

} // namespace moert
