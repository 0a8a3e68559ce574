//===- TextDfa.h - A deterministic automaton built on the way ---*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_TEXTDFA_H
#define MOE_RUNTIME_CONSTRAIN_TEXTDFA_H

#include "runtime/constrain/CharNfa.h"
#include "runtime/constrain/TextList.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

namespace moert {

/// Code points that lead to the same states wherever one is: those between two
/// neighbours of a list of borders.
class CharClasses {
public:
  CharClasses() : CharClasses(std::vector<uint32_t>()) {}
  explicit CharClasses(std::vector<uint32_t> borders);

  size_t of(uint32_t c) const;
  /// Those that have characters of ASCII, which come first.
  size_t asciiCount() const { return of(0x7F) + 1; }
  /// The first code points of the classes, ascending from 0.
  const std::vector<uint32_t> &borders() const { return borders_; }

private:
  std::vector<uint32_t> borders_;
  uint16_t ascii_[0x80];
};

/// The targets of states by class, as far as they are known. Other classes than
/// those of ASCII are many and rarely used, and take no room in each state.
class Transitions {
public:
  static constexpr int32_t kUnknown = -2;
  explicit Transitions(size_t asciiCount) : asciiCount_(asciiCount) {}

  int32_t find(int32_t from, size_t at) const;
  void set(int32_t from, size_t at, int32_t to);
  /// Makes those that lead to one of these dead: -1.
  void kill(const std::function<bool(int32_t)> &isDead);

private:
  size_t asciiCount_;
  std::vector<std::vector<int32_t>> ascii_;
  std::unordered_map<uint64_t, int32_t> others_;
};

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
  const CharClasses &classes() const { return classes_; }
  /// A measure of the work so far: states that were looked at.
  uint64_t work() const { return work_; }

private:
  struct State {
    std::vector<CharNfa::StateId> members; ///< Sorted; before free edges.
    bool isStart, afterWord;
    int8_t accepts = -1; ///< -1: not known.
  };
  StateId find(std::vector<CharNfa::StateId> members, bool afterWord);
  /// All states that edges without a code point lead to.
  std::vector<CharNfa::StateId> closed(const State &state, bool isEnd,
                                       bool beforeWord);

  std::shared_ptr<const CharNfa> nfa_;
  CharClasses classes_;
  Transitions next_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<CharNfa::StateId>, bool>, StateId> ids_;
  std::vector<uint32_t> marks_;
  uint32_t mark_ = 0;
  uint64_t work_ = 0;
};

/// One of the conditions that a text has to meet: an automaton or a list, and
/// the other one is null.
struct TextCondition {
  std::shared_ptr<const CharNfa> nfa = {};
  std::shared_ptr<const TextList> list = {};
  bool isNegated = false; ///< The text must not be one of theirs.
  bool operator==(const TextCondition &other) const {
    auto equal = [](const auto &one, const auto &two) {
      return one == two || (one && two && *one == *two);
    };
    return isNegated == other.isNegated && equal(nfa, other.nfa) &&
           equal(list, other.list);
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

  StateId start() const { return only_ ? unlisted(only_->start()) : 0; }
  StateId next(StateId from, uint32_t c);
  bool accepts(StateId state);

  /// The list, if that is the only condition and is not negated.
  const TextList *onlyList() const {
    return isOnlyNegated_ ? nullptr : only_.get();
  }
  /// Leaves out texts of the only list whose bit is set; null: none. They must
  /// live until the next call.
  void leaveOut(const Bits *without) { without_ = without; }

  /// Finds how far states are from the ends of texts, within a limit of states
  /// and work. Afterwards states from which no text ends are dead. Not for a
  /// list alone.
  void explore(size_t maxStates, uint64_t maxWork);
  bool isExplored() const { return !fewest_.empty(); }
  /// The fewest code points that still complete a text; 0 if not explored.
  int32_t fewest(StateId state) const {
    if (isOnlyNegated_) // Some character leads on to a text that is not listed.
      return state != kUnlisted && only_->accepts(state);
    return isExplored() ? fewest_[size_t(state)] : 0;
  }
  /// The most code points that still can follow; kFar: no limit, or not
  /// explored.
  int32_t most(StateId state) const {
    return isExplored() ? most_[size_t(state)] : kFar;
  }
  /// Whether it makes states: not of a list alone, nor of no condition.
  bool learns() const { return !parts_.empty(); }
  uint64_t work() const;
  size_t stateCount() const { return states_.size(); }
  /// The next code point after `c` that may lead to another state than `c`;
  /// above CharSet::kMaxCodePoint: there is none.
  uint32_t nextDifferent(StateId state, uint32_t c) const;

private:
  struct Part {
    std::optional<SubsetDfa> dfa; ///< Or a list.
    std::shared_ptr<const TextList> list;
    bool isNegated;

    int32_t next(int32_t from, uint32_t c);
    bool accepts(int32_t state);
  };
  StateId find(std::vector<int32_t> parts);
  StateId unlisted(StateId listed) const {
    return isOnlyNegated_ && listed == kDead ? kUnlisted : listed;
  }
  void findFewest();
  void findMost();
  template <class Visit> void visitTargets(StateId state, Visit visit);

  /// A list that is the only condition. Its states are those of this automaton,
  /// and kUnlisted is where no text of it is left.
  std::shared_ptr<const TextList> only_;
  bool isOnlyNegated_ = false;
  static constexpr StateId kUnlisted = -2;
  const Bits *without_ = nullptr;
  std::vector<Part> parts_;
  CharClasses classes_; ///< Of all together.
  Transitions next_;
  std::vector<std::vector<int32_t>> states_; ///< Those of the parts.
  std::map<std::vector<int32_t>, StateId> ids_;
  std::vector<int32_t> fewest_, most_;
  uint64_t listWork_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TEXTDFA_H
