//===- Automaton.cpp - A grammar as a pushdown automaton ------------------===//

#include "runtime/constrain/Automaton.h"

#include "runtime/constrain/RegularRules.h"
#include "runtime/constrain/TextScanner.h"

#include <algorithm>
#include <unordered_map>

namespace moert {

/// Compiles expressions in the manner of Thompson ("Regular expression search
/// algorithm", 1968): each is a fragment from one state to another.
class AutomatonBuilder {
public:
  using StateId = Automaton::StateId;

  AutomatonBuilder(const Grammar &grammar, size_t maxStates,
                   const Deadline &deadline)
      : grammar_(grammar), maxStates_(maxStates), deadline_(deadline),
        entries_(size_t(grammar.ruleCount()), Automaton::kNone) {}

  StatusOr<Automaton> run() {
    MOE_RETURN_IF_ERROR(grammar_.check());
    entryOf(0);
    for (size_t i = 0; i < open_.size(); ++i) {
      MOE_RETURN_IF_ERROR(deadline_.check("compiling the grammar"));
      StateId end = addState();
      if (auto scanner = scannerOfRule(grammar_, open_[i]))
        addScan(scanner, entries_[size_t(open_[i])], end);
      else
        add(grammar_.body(open_[i]), entries_[size_t(open_[i])], end);
      if (isFull())
        return Status(StatusCode::Usage,
                      "the grammar has over " + std::to_string(maxStates_) +
                          " states; repeat fewer times, or smaller parts");
      at(end).isEnd = true;
    }
    skipEndsAfterCalls();
    return std::move(automaton_);
  }

private:
  Automaton::State &at(StateId id) { return automaton_.states_[size_t(id)]; }
  bool isFull() const { return automaton_.states_.size() > maxStates_; }

  StateId addState() {
    automaton_.states_.emplace_back();
    return StateId(automaton_.states_.size()) - 1;
  }

  StateId entryOf(RuleId rule) {
    StateId &entry = entries_[size_t(rule)];
    if (entry == Automaton::kNone) {
      entry = addState();
      open_.push_back(rule);
    }
    return entry;
  }

  void add(ExprId id, StateId from, StateId to) {
    if (isFull())
      return;
    const Expr &expr = grammar_[id];
    switch (expr.kind) {
    case Expr::Kind::Bytes:
      addBytes(expr.bytes, from, to);
      return;
    case Expr::Kind::Chars:
      for (const Utf8Sequence &sequence : utf8Sequences(expr.chars))
        addSequence(sequence, from, to);
      return;
    case Expr::Kind::Sequence:
      for (size_t i = 0; i < expr.parts.size(); ++i) {
        StateId next = i + 1 < expr.parts.size() ? addState() : to;
        add(expr.parts[i], from, next);
        from = next;
      }
      if (expr.parts.empty())
        at(from).empty.push_back(to);
      return;
    case Expr::Kind::Choice:
      // A loop at the beginning of one alternative must not reach the others.
      for (ExprId part : expr.parts) {
        StateId begin = addState();
        at(from).empty.push_back(begin);
        add(part, begin, to);
      }
      return;
    case Expr::Kind::Repeat:
      addRepeat(expr, from, to);
      return;
    case Expr::Kind::Rule: {
      StateId entry = entryOf(expr.rule);
      at(from).calls.push_back({entry, to});
      return;
    }
    case Expr::Kind::Scan:
      addScan(expr.scanner, from, to);
      return;
    case Expr::Kind::Checked:
      automaton_.checks_.push_back(expr.check);
      addCall(
          expr.parts[0], from,
          {.followUp = to, .check = int32_t(automaton_.checks_.size()) - 1});
      return;
    case Expr::Kind::Series:
      addSeries(grammar_.series(expr), from, to);
      return;
    }
  }

  /// Adds states for an expression that ends as a rule does.
  StateId addSubrule(ExprId id) {
    const StateId entry = addState(), end = addState();
    at(end).isEnd = true;
    add(id, entry, end);
    return entry;
  }

  void addCall(ExprId id, StateId from, Automaton::Call call) {
    const Expr &expr = grammar_[id];
    call.entry =
        expr.kind == Expr::Kind::Rule ? entryOf(expr.rule) : addSubrule(id);
    at(from).calls.push_back(call);
  }

  void addScan(const std::shared_ptr<const Scanner> &scanner, StateId from,
               StateId to) {
    const StateId state = addState();
    at(state).scan = scanIndex(scanner);
    at(state).scanEnd = to;
    at(from).empty.push_back(state);
  }

  int32_t scanIndex(const std::shared_ptr<const Scanner> &scanner) {
    auto [it, isNew] = scanIds_.try_emplace(
        scanner.get(), int32_t(automaton_.scanners_.size()));
    if (isNew)
      automaton_.scanners_.push_back(scanner);
    return it->second;
  }

  void addSeries(const Series &series, StateId from, StateId to) {
    const auto index = int32_t(automaton_.series_.size());
    automaton_.series_.emplace_back();
    auto turn = [&](Automaton::Turn which) {
      const StateId state = addState();
      at(state).series = index;
      at(state).turn = which;
      return state;
    };
    Automaton::SeriesStates states;
    states.isAnyOrder = series.isAnyOrder;
    states.isRequired = series.isRequired;
    states.required = int32_t(std::ranges::count(series.isRequired, true));
    states.least = series.least;
    states.most = series.most;
    const StateId first = turn(Automaton::Turn::First);
    states.next = first;
    if (series.separator >= 0) {
      states.next = turn(Automaton::Turn::Next);
      states.separator = addState();
      add(series.separator, states.separator, turn(Automaton::Turn::Part));
    }
    if (series.after >= 0) {
      const StateId after = addState();
      add(series.after, after, states.next);
      states.next = after;
    }
    for (const auto &names : series.names) {
      states.names.push_back(turn(Automaton::Turn::Name));
      at(states.names.back()).scan = scanIndex(names);
      states.nameCount = int32_t(names->dfa().onlyList()->size());
    }
    if (!series.names.empty()) {
      states.afterName = addState();
      add(series.afterName, states.afterName, turn(Automaton::Turn::Entry));
    }
    states.nameOf = series.nameOf;
    states.variantsOf = series.variantsOf;
    states.variantsOfRest = series.variantsOfRest;
    states.neededNames = series.neededNames;
    auto entry = [&](ExprId id) {
      const Expr &expr = grammar_[id];
      return expr.kind == Expr::Kind::Rule ? entryOf(expr.rule)
                                           : addSubrule(id);
    };
    for (ExprId id : series.entries)
      states.entries.push_back(entry(id));
    for (ExprId id : series.rest)
      states.rest.push_back(entry(id));
    for (ExprId id : series.restAfterName)
      states.restAfterName.push_back(entry(id));
    automaton_.series_[size_t(index)] = std::move(states);
    at(from).calls.push_back(
        {.entry = first, .followUp = to, .isSeries = true});
  }

  void addBytes(std::string_view bytes, StateId from, StateId to) {
    Utf8Sequence sequence;
    for (char byte : bytes)
      sequence.push_back({uint8_t(byte), uint8_t(byte)});
    addSequence(sequence, from, to);
  }

  void addSequence(const Utf8Sequence &sequence, StateId from, StateId to) {
    if (sequence.empty())
      at(from).empty.push_back(to);
    for (size_t i = 0; i < sequence.size(); ++i) {
      StateId next = i + 1 < sequence.size() ? addState() : to;
      at(from).bytes.push_back({sequence[i].first, sequence[i].last, next});
      from = next;
    }
  }

  /// Repetitions up to this number are copies; of more, the number that has
  /// been read is kept.
  static constexpr int32_t kMostCopies = 4;

  /// Adds `least` copies, then either a loop, or further copies each of which
  /// may be the last one.
  void addRepeat(const Expr &expr, StateId from, StateId to) {
    ExprId part = expr.parts[0];
    if (std::max(expr.least, expr.most) > kMostCopies) {
      addSeries({.rest = {part}, .least = expr.least, .most = expr.most}, from,
                to);
      return;
    }
    for (int32_t i = 0; i < expr.least && !isFull(); ++i) {
      StateId next = addState();
      add(part, from, next);
      from = next;
    }
    if (expr.most == Expr::kUnbounded) {
      StateId loop = addState(), back = addState();
      at(from).empty.push_back(loop);
      add(part, loop, back);
      at(back).empty.push_back(loop);
      at(loop).empty.push_back(to);
      return;
    }
    for (int32_t i = expr.least; i < expr.most && !isFull(); ++i) {
      StateId begin = addState(), next = addState();
      at(from).empty.insert(at(from).empty.end(), {begin, to});
      add(part, begin, next);
      from = next;
    }
    at(from).empty.push_back(to);
  }

  /// A call after which its rule can only end needs no return: without this,
  /// a list that is written as `list ::= item list?` would need a deeper stack
  /// with every item.
  void skipEndsAfterCalls() {
    for (Automaton::State &state : automaton_.states_)
      for (Automaton::Call &call : state.calls)
        if (call.check < 0 && !call.isSeries && onlyEnds(call.followUp))
          call.followUp = Automaton::kNone;
  }

  bool onlyEnds(StateId id) const {
    for (size_t steps = 0; steps < 64; ++steps) {
      const Automaton::State &state = automaton_[id];
      if (!state.bytes.empty() || !state.calls.empty() || state.scan >= 0 ||
          state.series >= 0)
        return false;
      if (state.isEnd)
        return state.empty.empty();
      if (state.empty.size() != 1)
        return false;
      id = state.empty.front();
    }
    return false;
  }

  const Grammar &grammar_;
  size_t maxStates_;
  const Deadline deadline_;
  Automaton automaton_;
  std::vector<StateId> entries_; ///< First state of each rule.
  std::unordered_map<const Scanner *, int32_t> scanIds_;
  std::vector<RuleId> open_; ///< Rules in the order of their entry states.
};

bool Automaton::operator==(const Automaton &other) const {
  auto equal = [](const auto &one, const auto &two) {
    return one == two || *one == *two;
  };
  auto equalScanners = [](const auto &one, const auto &two) {
    return one == two || one->equals(*two);
  };
  return states_ == other.states_ && series_ == other.series_ &&
         std::ranges::equal(scanners_, other.scanners_, equalScanners) &&
         std::ranges::equal(checks_, other.checks_, equal);
}

size_t Automaton::bytes() const {
  size_t sum = states_.size() * 2 * sizeof(State);
  for (const SeriesStates &series : series_) {
    sum += sizeof(series) +
           (series.entries.size() + series.nameOf.size()) * sizeof(StateId);
    for (const auto *lists :
         {&series.variantsOf, &series.variantsOfRest, &series.neededNames})
      for (const std::vector<int32_t> &list : *lists)
        sum += sizeof(list) + list.size() * sizeof(int32_t);
  }
  return sum;
}

StatusOr<Automaton> Automaton::compile(const Grammar &grammar, size_t maxStates,
                                       const Deadline &deadline) {
  return AutomatonBuilder(grammar, maxStates, deadline).run();
}

} // namespace moert
