//===- TextDfa.h - A deterministic automaton built on the way ---*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_TEXTDFA_H
#define MOE_RUNTIME_CONSTRAIN_TEXTDFA_H

#include "runtime/constrain/CharNfa.h"

#include <map>
#include <memory>

namespace moert {

/// The subsets of an automaton's states that texts lead to, made when they are
/// first reached. Not for several threads; copies are independent.
class SubsetDfa {
public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;

  explicit SubsetDfa(std::shared_ptr<const CharNfa> nfa);

  StateId start() const { return 0; }
  /// The state after another code point; kDead: no text goes on like this.
  StateId next(StateId from, uint32_t c);
  bool accepts(StateId state);
  /// Code points between two neighbours of these, which ascend, lead to the
  /// same state. The first one is 0.
  const std::vector<uint32_t> &borders() const { return borders_; }
  size_t stateCount() const { return states_.size(); }
  /// A measure of the work so far: states that were looked at.
  uint64_t work() const { return work_; }

private:
  struct State {
    std::vector<CharNfa::StateId> members; ///< Sorted; before free edges.
    bool isStart, afterWord;
    int8_t accepts = -1;            ///< -1: not known.
    std::vector<StateId> next = {}; ///< By class.
  };
  StateId find(std::vector<CharNfa::StateId> members, bool afterWord);
  /// All states that edges without a code point lead to.
  std::vector<CharNfa::StateId> closed(const State &state, bool isEnd,
                                       bool beforeWord);
  size_t classOf(uint32_t c) const;

  std::shared_ptr<const CharNfa> nfa_;
  std::vector<uint32_t> borders_;
  std::vector<uint16_t> asciiClass_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<CharNfa::StateId>, bool>, StateId> ids_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
  uint64_t work_ = 0;
};

/// One of the conditions that a text has to meet.
struct TextCondition {
  std::shared_ptr<const CharNfa> nfa;
  bool isNegated = false; ///< The automaton must not accept the text.
  bool operator==(const TextCondition &other) const {
    return isNegated == other.isNegated &&
           (nfa == other.nfa || *nfa == *other.nfa);
  }
};

/// Texts that meet all conditions. Not for several threads; copies are
/// independent.
class TextDfa {
public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;
  static constexpr int32_t kFar = INT32_MAX; ///< No distance, or not known.

  explicit TextDfa(const std::vector<TextCondition> &conditions);

  StateId start() const { return 0; }
  StateId next(StateId from, uint32_t c);
  bool accepts(StateId state);

  /// Finds how far states are from the ends of texts, within a limit of states
  /// and work. Afterwards states from which no text ends are dead.
  void explore(size_t maxStates, uint64_t maxWork);
  bool isExplored() const { return !fewest_.empty(); }
  /// The fewest code points that still complete a text; 0 if not explored.
  int32_t fewest(StateId state) const {
    return isExplored() ? fewest_[size_t(state)] : 0;
  }
  /// The most code points that still can follow; kFar: no limit, or not
  /// explored.
  int32_t most(StateId state) const {
    return isExplored() ? most_[size_t(state)] : kFar;
  }
  uint64_t work() const;
  size_t stateCount() const { return states_.size(); }
  /// Code points between two neighbours of these, which ascend, lead to the
  /// same state. The first one is 0.
  const std::vector<uint32_t> &borders() const { return borders_; }

private:
  StateId find(std::vector<int32_t> parts);
  size_t classOf(uint32_t c) const;
  void findFewest();
  void findMost();

  std::vector<SubsetDfa> dfas_;
  std::vector<bool> isNegated_;
  std::vector<uint32_t> borders_; ///< Of all together.
  std::vector<uint16_t> asciiClass_;
  std::vector<std::vector<int32_t>> states_; ///< Those of the automata.
  std::vector<std::vector<StateId>> next_;   ///< By state, then by class.
  std::map<std::vector<int32_t>, StateId> ids_;
  std::vector<int32_t> fewest_, most_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TEXTDFA_H
