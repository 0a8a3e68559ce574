//===- Automaton.h - A grammar as a pushdown automaton ----------*- C++ -*-===//
//
// Every rule is a nondeterministic automaton over bytes. A state has edges for
// ranges of bytes, edges that read nothing, and calls: a call enters another
// rule and remembers the state after it. Code points have been split into the
// bytes of UTF-8, so that text may be cut anywhere, as tokens do.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_AUTOMATON_H
#define MOE_RUNTIME_CONSTRAIN_AUTOMATON_H

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
    StateId entry;    ///< First state of the called rule.
    StateId followUp; ///< Where the caller continues; kNone: its rule ends.
    bool operator==(const Call &) const = default;
  };
  struct State {
    std::vector<ByteEdge> bytes = {};
    std::vector<StateId> empty = {}; ///< Targets of edges that read nothing.
    std::vector<Call> calls = {};
    bool isEnd = false; ///< The rule ends here.
    bool operator==(const State &) const = default;
  };

  /// Checks the grammar and compiles it. Fails with Usage if it has more than
  /// `maxStates` states when repetitions are written out.
  static StatusOr<Automaton> compile(const Grammar &grammar,
                                     size_t maxStates = kMaxStates);

  const State &operator[](StateId id) const { return states_[size_t(id)]; }
  StateId start() const { return 0; }
  size_t stateCount() const { return states_.size(); }
  /// Whether both were compiled from the same grammar.
  bool operator==(const Automaton &) const = default;

  static constexpr size_t kMaxStates = 500'000;

private:
  std::vector<State> states_;
  friend class AutomatonBuilder;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_AUTOMATON_H
