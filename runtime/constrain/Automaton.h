//===- Automaton.h - A grammar as a pushdown automaton ----------*- C++ -*-===//
//
// Every rule is a nondeterministic automaton over bytes. A state has edges for
// ranges of bytes, edges that read nothing, and calls: a call enters another
// rule and remembers the state after it. Code points have been split into the
// bytes of UTF-8, so that text may be cut anywhere, as tokens do.
//
// Some states are more than that. A scan state reads a text by a scanner. The
// states of a series call its parts, as far as those that have been read allow
// it; that is kept with the call of the series (Matcher.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_AUTOMATON_H
#define MOE_RUNTIME_CONSTRAIN_AUTOMATON_H

#include "runtime/base/Deadline.h"
#include "runtime/constrain/Grammar.h"

#include <span>

namespace moert {

class Automaton {
public:
  using StateId = int32_t;
  static constexpr StateId kNone = -1;

  struct ByteEdge {
    uint8_t first, last; ///< Both ends are included.
    StateId target;
    bool operator==(const ByteEdge &) const = default;
  };
  struct Call {
    StateId entry = kNone; ///< First state of the called rule.
    /// State of the caller after the call; kNone: its rule ends.
    StateId followUp = kNone;
    /// Index into checks(): a condition for returning; -1: none.
    int32_t check = -1;
    /// Whether a series is called, none of whose parts was read.
    bool isSeries = false;
    bool operator==(const Call &) const = default;
  };
  /// The part of a series that may follow in a state.
  enum class Turn : uint8_t {
    None,  ///< The state belongs to no series.
    First, ///< Before the first part, or the end.
    Next,  ///< Before a separator, or the end.
    Part,  ///< Before a part, after a separator.
    Name,  ///< Before the rest of a name, which scan() reads.
    Entry, ///< Before an entry, after its name.
  };
  struct State {
    std::vector<ByteEdge> bytes = {};
    /// States that edges without text lead to.
    std::vector<StateId> empty = {};
    std::vector<Call> calls = {};
    int32_t scan = -1;       ///< Index into scanners(); -1: none.
    StateId scanEnd = kNone; ///< State after the text that the scanner reads.
    int32_t series = -1;     ///< Index into series(); -1: none.
    Turn turn = Turn::None;
    bool isEnd = false; ///< Whether the rule may end here.
    bool operator==(const State &) const = default;
  };
  /// A Series whose parts are compiled: first states of rules.
  struct SeriesStates {
    std::vector<StateId> entries = {}, rest = {};
    std::vector<bool> isRequired = {};
    bool isAnyOrder = false;
    int32_t least = 0, most = 0, required = 0;
    StateId next = kNone; ///< The state after a part.
    /// State in front of a separator; kNone: there is none.
    StateId separator = kNone;
    /// States in front of a name, one for each way to write it.
    std::vector<StateId> names = {};
    std::vector<StateId> restAfterName = {};
    StateId afterName = kNone;
    /// Same meaning as in Series, like the following members.
    std::vector<int32_t> nameOf = {};
    std::vector<std::vector<int32_t>> variantsOf = {}, variantsOfRest = {},
                                      neededNames = {};
    int32_t nameCount = 0;
    bool operator==(const SeriesStates &) const = default;
  };

  /// Checks the grammar and compiles it. Fails with Usage if it has more than
  /// `maxStates` states when repetitions are written out, or once the deadline
  /// has passed.
  static StatusOr<Automaton> compile(const Grammar &grammar,
                                     size_t maxStates = kMaxStates,
                                     const Deadline &deadline = {});

  const State &operator[](StateId id) const { return states_[size_t(id)]; }
  StateId start() const { return 0; }
  size_t stateCount() const { return states_.size(); }
  const std::vector<std::shared_ptr<const Scanner>> &scanners() const {
    return scanners_;
  }
  const TextCheck &check(int32_t index) const {
    return *checks_[size_t(index)];
  }
  bool hasChecks() const { return !checks_.empty(); }
  const SeriesStates &series(int32_t index) const {
    return series_[size_t(index)];
  }
  /// Whether both were compiled from the same grammar.
  bool operator==(const Automaton &other) const;
  /// Returns about how many bytes states and series take.
  size_t bytes() const;

  static constexpr size_t kMaxStates = 500'000;

private:
  std::vector<State> states_;
  std::vector<std::shared_ptr<const Scanner>> scanners_;
  std::vector<std::shared_ptr<const TextCheck>> checks_;
  std::vector<SeriesStates> series_;
  friend class AutomatonBuilder;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_AUTOMATON_H
