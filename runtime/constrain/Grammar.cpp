//===- Grammar.cpp - Context-free grammars over Unicode text --------------===//

#include "runtime/constrain/Grammar.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <functional>

namespace moert {

ExprId Grammar::add(Expr expr) {
  exprs_.push_back(std::move(expr));
  return ExprId(exprs_.size()) - 1;
}

ExprId Grammar::bytes(std::string text) {
  return add({.kind = Expr::Kind::Bytes, .bytes = std::move(text)});
}

ExprId Grammar::chars(CharSet set) {
  return add({.kind = Expr::Kind::Chars, .chars = std::move(set)});
}

ExprId Grammar::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1)
    return parts.front();
  return add({.kind = Expr::Kind::Sequence, .parts = std::move(parts)});
}

ExprId Grammar::choice(std::vector<ExprId> parts) {
  if (parts.size() == 1)
    return parts.front();
  return add({.kind = Expr::Kind::Choice, .parts = std::move(parts)});
}

ExprId Grammar::repeat(ExprId part, int32_t least, int32_t most) {
  return add({.kind = Expr::Kind::Repeat,
              .parts = {part},
              .least = least,
              .most = most});
}

ExprId Grammar::rule(RuleId id) {
  return add({.kind = Expr::Kind::Rule, .rule = id});
}

ExprId Grammar::scan(std::shared_ptr<const Scanner> scanner) {
  return add({.kind = Expr::Kind::Scan, .scanner = std::move(scanner)});
}

ExprId Grammar::checked(ExprId part, std::shared_ptr<const TextCheck> check) {
  return add({.kind = Expr::Kind::Checked,
              .parts = {part},
              .check = std::move(check)});
}

ExprId Grammar::series(Series series) {
  // Returns all parts, for searches of rules.
  std::vector<ExprId> parts = series.entries;
  for (const auto *list : {&series.rest, &series.restAfterName})
    parts.insert(parts.end(), list->begin(), list->end());
  for (ExprId part : {series.separator, series.after, series.afterName})
    if (part >= 0)
      parts.push_back(part);
  series_.push_back(std::move(series));
  return add({.kind = Expr::Kind::Series,
              .parts = std::move(parts),
              .series = int32_t(series_.size()) - 1});
}

ExprId Grammar::embed(const Grammar &other, const std::string &prefix) {
  std::vector<RuleId> rules;
  for (RuleId id = 0; id < other.ruleCount(); ++id)
    rules.push_back(declare(prefix + other.name(id)));
  // An expression is added after its parts.
  std::vector<ExprId> exprs;
  for (Expr expr : other.exprs_) {
    for (ExprId &part : expr.parts)
      part = exprs[size_t(part)];
    if (expr.kind == Expr::Kind::Rule)
      expr.rule = rules[size_t(expr.rule)];
    if (expr.kind == Expr::Kind::Series) {
      Series series = other.series(expr);
      for (std::vector<ExprId> *list :
           {&series.entries, &series.rest, &series.restAfterName})
        for (ExprId &part : *list)
          part = exprs[size_t(part)];
      for (ExprId *part : {&series.separator, &series.after, &series.afterName})
        if (*part >= 0)
          *part = exprs[size_t(*part)];
      expr.series = int32_t(series_.size());
      series_.push_back(std::move(series));
    }
    exprs.push_back(add(std::move(expr)));
  }
  for (RuleId id = 0; id < other.ruleCount(); ++id)
    if (other.isDefined(id))
      define(rules[size_t(id)], exprs[size_t(other.body(id))]);
  return rule(rules[0]);
}

RuleId Grammar::declare(const std::string &name) {
  auto [it, isNew] = ids_.try_emplace(name, ruleCount());
  if (isNew)
    rules_.push_back({name});
  return it->second;
}

namespace {
/// Properties of rules: the least fixed point of rules about expressions.
class Analysis {
public:
  explicit Analysis(const Grammar &grammar)
      : grammar_(grammar), canEnd_(size_t(grammar.ruleCount())),
        canBeEmpty_(size_t(grammar.ruleCount())) {
    std::vector<std::vector<RuleId>> users(size_t(grammar.ruleCount()));
    for (RuleId rule = 0; rule < grammar.ruleCount(); ++rule)
      if (grammar.body(rule) >= 0)
        rulesOf(grammar.body(rule), /*all=*/true, [&](RuleId used) {
          if (users[size_t(used)].empty() || users[size_t(used)].back() != rule)
            users[size_t(used)].push_back(rule);
        });
    find(canEnd_, users, /*empty=*/false);
    find(canBeEmpty_, users, /*empty=*/true);
  }

  bool canEnd(RuleId rule) const { return canEnd_[size_t(rule)]; }

  /// Calls `visit` for every rule with which text of the expression can begin,
  /// or, with `all`, for every rule that it names.
  void rulesOf(ExprId id, bool all,
               const std::function<void(RuleId)> &visit) const {
    const Expr &expr = grammar_[id];
    if (expr.kind == Expr::Kind::Rule)
      visit(expr.rule);
    if (expr.kind == Expr::Kind::Repeat && expr.most == 0)
      return;
    for (ExprId part : expr.parts) {
      rulesOf(part, all, visit);
      if (!all && expr.kind == Expr::Kind::Sequence &&
          !holds(canBeEmpty_, part, true))
        return;
    }
  }

private:
  /// Finds the rules that have a property. Those that name a rule are looked at
  /// again when it has been found to have it.
  void find(std::vector<bool> &of,
            const std::vector<std::vector<RuleId>> &users, bool empty) const {
    std::vector<RuleId> open;
    for (RuleId rule = 0; rule < grammar_.ruleCount(); ++rule)
      open.push_back(rule);
    while (!open.empty()) {
      const RuleId rule = open.back();
      open.pop_back();
      if (of[size_t(rule)] || grammar_.body(rule) < 0 ||
          !holds(of, grammar_.body(rule), empty))
        continue;
      of[size_t(rule)] = true;
      open.insert(open.end(), users[size_t(rule)].begin(),
                  users[size_t(rule)].end());
    }
  }

  /// Returns whether the expression matches a finite text or, with `empty`, the
  /// empty text.
  bool holds(const std::vector<bool> &of, ExprId id, bool empty) const {
    const Expr &expr = grammar_[id];
    auto part = [&](ExprId p) { return holds(of, p, empty); };
    switch (expr.kind) {
    case Expr::Kind::Bytes:
      return !empty || expr.bytes.empty();
    case Expr::Kind::Chars:
      return !empty && !expr.chars.isEmpty();
    case Expr::Kind::Sequence:
      return std::ranges::all_of(expr.parts, part);
    case Expr::Kind::Choice:
      return std::ranges::any_of(expr.parts, part);
    case Expr::Kind::Repeat:
      return expr.least == 0 || part(expr.parts[0]);
    case Expr::Kind::Rule:
      return of[size_t(expr.rule)];
    case Expr::Kind::Scan:
      return !empty || expr.scanner->readsEmpty();
    case Expr::Kind::Checked:
      return part(expr.parts[0]);
    case Expr::Kind::Series:
      return seriesHolds(of, grammar_.series(expr), empty);
    }
    return false;
  }

  bool seriesHolds(const std::vector<bool> &of, const Series &series,
                   bool empty) const {
    auto part = [&](ExprId p) { return holds(of, p, empty); };
    if (!series.neededNames.empty())
      return empty ? std::ranges::any_of(series.neededNames,
                                         &std::vector<int32_t>::empty)
                   : anyVariantEnds(of, series);
    // Some of the parts have to be there.
    int32_t available = 0;
    for (size_t i = 0; i < series.entries.size(); ++i) {
      const bool can = part(series.entries[i]);
      const bool must = series.isAnyOrder
                            ? !series.isRequired.empty() && series.isRequired[i]
                            : int32_t(i) < series.least;
      if (must && !can)
        return false;
      available += can;
    }
    if (series.least > 1 && series.separator >= 0 && !part(series.separator))
      return false;
    return available >= series.least || std::ranges::any_of(series.rest, part);
  }

  /// Whether the entries that some variant needs match finite texts.
  bool anyVariantEnds(const std::vector<bool> &of, const Series &series) const {
    std::vector<int32_t> found(series.neededNames.size());
    for (size_t i = 0; i < series.entries.size(); ++i) {
      if (!holds(of, series.entries[i], /*empty=*/false))
        continue;
      for (int32_t variant : series.variantsOf[i])
        found[size_t(variant)] += std::ranges::binary_search(
            series.neededNames[size_t(variant)], series.nameOf[i]);
    }
    for (size_t i = 0; i < found.size(); ++i)
      if (size_t(found[i]) == series.neededNames[i].size())
        return true;
    return false;
  }

  const Grammar &grammar_;
  std::vector<bool> canEnd_, canBeEmpty_;
};
} // namespace

Status Grammar::check() const {
  auto failure = [&](RuleId id, const char *what) {
    return Status(StatusCode::Usage,
                  "rule " + printable(name(id)) + " " + what);
  };
  if (rules_.empty())
    return Status(StatusCode::Usage, "the grammar has no rules");
  std::vector<RuleId> reached = {0};
  std::vector<bool> isReached(rules_.size());
  isReached[0] = true;
  Analysis analysis(*this);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (body(reached[i]) < 0)
      return failure(reached[i], "is used but not defined");
    analysis.rulesOf(body(reached[i]), /*all=*/true, [&](RuleId next) {
      if (!isReached[size_t(next)])
        reached.push_back(next);
      isReached[size_t(next)] = true;
    });
  }
  for (RuleId id : reached)
    if (!analysis.canEnd(id))
      return failure(id, "never ends: each of its alternatives needs it again");
  // Left recursion: a circle of rules that begin with each other.
  std::vector<std::vector<RuleId>> begins(rules_.size());
  for (RuleId id : reached)
    analysis.rulesOf(body(id), /*all=*/false,
                     [&](RuleId next) { begins[size_t(id)].push_back(next); });
  // Each rule is entered once. It is open while what it begins with is
  // followed.
  enum class Mark : uint8_t { New, Open, Done };
  std::vector<Mark> marks(rules_.size(), Mark::New);
  struct Entry {
    RuleId rule;
    size_t next; ///< Index into `begins` of the rule that is visited next.
  };
  for (RuleId first : reached) {
    std::vector<Entry> path;
    auto enter = [&](RuleId rule) {
      marks[size_t(rule)] = Mark::Open;
      path.push_back({rule, 0});
    };
    if (marks[size_t(first)] == Mark::New)
      enter(first);
    while (!path.empty()) {
      auto &[rule, next] = path.back();
      if (next == begins[size_t(rule)].size()) {
        marks[size_t(rule)] = Mark::Done;
        path.pop_back();
        continue;
      }
      const RuleId begin = begins[size_t(rule)][next++];
      if (marks[size_t(begin)] == Mark::Open)
        return failure(begin, "is left-recursive: it can begin with itself; "
                              "write the repetition as ( ... )*");
      if (marks[size_t(begin)] == Mark::New)
        enter(begin);
    }
  }
  return Status::ok();
}

} // namespace moert
