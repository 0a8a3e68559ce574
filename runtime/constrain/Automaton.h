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
    uint8_t first, last; ///< Inclusive.
    StateId target;
    bool operator==(const ByteEdge &) const = default;
  };
  struct Call {
    StateId entry = kNone; ///< First state of what is called.
    StateId followUp =
        kNone;          ///< Where the caller continues; kNone: its rule ends.
    int32_t check = -1; ///< Index into checks(), of a condition for the return.
    bool isSeries = false; ///< Of a series, with nothing read yet.
    bool operator==(const Call &) const = default;
  };
  /// What a state of a series is before.
  enum class Turn : uint8_t {
    None,  ///< It is none.
    First, ///< The first part, or the end.
    Next,  ///< A separator, or the end.
    Part,  ///< A part, after a separator.
    Name,  ///< What is left of a name, which scan() reads.
    Entry, ///< An entry, after its name.
  };
  struct State {
    std::vector<ByteEdge> bytes = {};
    std::vector<StateId> empty = {}; ///< Targets of edges that read nothing.
    std::vector<Call> calls = {};
    int32_t scan = -1;       ///< Index into scanners().
    StateId scanEnd = kNone; ///< Where its text has been read.
    int32_t series = -1;     ///< Index into series().
    Turn turn = Turn::None;
    bool isEnd = false; ///< The rule ends here.
    bool operator==(const State &) const = default;
  };
  /// A Series whose parts are compiled: first states of rules.
  struct SeriesStates {
    std::vector<StateId> entries = {}, rest = {};
    std::vector<bool> isRequired = {};
    bool isAnyOrder = false;
    int32_t least = 0, most = 0, required = 0;
    StateId next = kNone;      ///< The state after a part.
    StateId separator = kNone; ///< Begins one; kNone: there is none.
    std::vector<StateId> names =
        {}; ///< Before a name, in each way to write it.
    std::vector<StateId> restAfterName = {};
    StateId afterName = kNone;
    std::vector<int32_t> nameOf = {}; ///< As in Series, and so are these.
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
