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

/// Classes of code points that lead to the same states wherever one is. A class
/// is the code points from one border of a list up to the next one.
class CharClasses {
public:
  CharClasses() : CharClasses(std::vector<uint32_t>()) {}
  explicit CharClasses(std::vector<uint32_t> borders);

  size_t of(uint32_t c) const;
  /// The number of classes that have characters of ASCII. They come first.
  size_t asciiCount() const { return of(0x7F) + 1; }
  /// The first code point of each class. They ascend from 0.
  const std::vector<uint32_t> &borders() const { return borders_; }

private:
  std::vector<uint32_t> borders_;
  uint16_t ascii_[0x80];
};

/// The targets of states by class, as far as they are known. The classes beyond
/// ASCII are many and rarely used: they take no room in each state.
class Transitions {
public:
  static constexpr int32_t kUnknown = -2;
  explicit Transitions(size_t asciiCount) : asciiCount_(asciiCount) {}

  int32_t find(int32_t from, size_t at) const;
  void set(int32_t from, size_t at, int32_t to);
  /// Makes each transition to a state of which `isDead` is true lead to -1,
  /// from where nothing leads on.
  void kill(const std::function<bool(int32_t)> &isDead);

private:
  size_t asciiCount_;
  std::vector<std::vector<int32_t>> ascii_;
  std::unordered_map<uint64_t, int32_t> others_;
};

/// A deterministic automaton whose states are the subsets of an automaton's
/// states that texts lead to. Each is made when a text first reaches it.
/// Threads may not share one; copies are independent.
class SubsetDfa {
public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;

  explicit SubsetDfa(std::shared_ptr<const CharNfa> nfa);

  StateId start() const { return 0; }
  /// Returns the state after another code point, or kDead if no text goes on
  /// with it.
  StateId next(StateId from, uint32_t c);
  bool accepts(StateId state);
  const CharClasses &classes() const { return classes_; }
  /// Returns how many states have been looked at so far, as a measure of work.
  uint64_t work() const { return work_; }

private:
  struct State {
    /// The states that code points lead to, sorted. What free edges add is not
    /// among them.
    std::vector<CharNfa::StateId> members;
    bool isStart, afterWord;
    int8_t accepts = -1; ///< 1 or 0; -1 while it is not known.
  };
  StateId find(std::vector<CharNfa::StateId> members, bool afterWord);
  /// Returns the state's members and all states that edges without a code point
  /// lead to from them.
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

/// One of the conditions that a text has to meet. It is an automaton or a list;
/// the other one of the two is null.
struct TextCondition {
  std::shared_ptr<const CharNfa> nfa = {};
  std::shared_ptr<const TextList> list = {};
  bool isNegated = false; ///< Whether the text must not match.
  bool operator==(const TextCondition &other) const {
    auto equal = [](const auto &one, const auto &two) {
      return one == two || (one && two && *one == *two);
    };
    return isNegated == other.isNegated && equal(nfa, other.nfa) &&
           equal(list, other.list);
  }
};

/// A deterministic automaton of the texts that meet all conditions. Threads may
/// not share one; copies are independent.
class TextDfa {
public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;
  /// Stands for a distance that has no limit or is not known.
  static constexpr int32_t kFar = INT32_MAX;

  explicit TextDfa(const std::vector<TextCondition> &conditions);

  StateId start() const { return only_ ? unlisted(only_->start()) : 0; }
  StateId next(StateId from, uint32_t c);
  bool accepts(StateId state);

  /// Returns the list if it is the only condition and is not negated, else
  /// null.
  const TextList *onlyList() const {
    return isOnlyNegated_ ? nullptr : only_.get();
  }
  /// Leaves out the texts of the only list whose bits are set, or none of them
  /// if `without` is null. The bits must live until the next call.
  void leaveOut(const Bits *without) { without_ = without; }

  /// Finds how far states are from the ends of texts, within a limit of states
  /// and work. Afterwards states from which no text ends are dead. It must not
  /// be called where a list is the only condition.
  void explore(size_t maxStates, uint64_t maxWork);
  bool isExplored() const { return !fewest_.empty(); }
  /// Returns the fewest code points that complete a text from this state, or 0
  /// if that has not been explored.
  int32_t fewest(StateId state) const {
    // From a listed text some character leads on to one that is not listed.
    if (isOnlyNegated_)
      return state != kUnlisted && only_->accepts(state);
    return isExplored() ? fewest_[size_t(state)] : 0;
  }
  /// Returns the most code points that can follow. It is kFar if they have no
  /// limit or if that has not been explored.
  int32_t most(StateId state) const {
    return isExplored() ? most_[size_t(state)] : kFar;
  }
  /// Whether it makes states. It makes none if a list is the only condition, or
  /// if there is no condition.
  bool learns() const { return !parts_.empty(); }
  uint64_t work() const;
  size_t stateCount() const { return states_.size(); }
  /// Returns the next code point after `c` that may lead to another state than
  /// `c`. If there is none, it is above CharSet::kMaxCodePoint.
  uint32_t nextDifferent(StateId state, uint32_t c) const;

private:
  /// A condition: an automaton, or a list if there is no automaton.
  struct Part {
    std::optional<SubsetDfa> dfa;
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

  /// The list that is the only condition, or null. Its states are then those of
  /// this automaton; a negated one is at kUnlisted where no listed text is
  /// left.
  std::shared_ptr<const TextList> only_;
  bool isOnlyNegated_ = false;
  static constexpr StateId kUnlisted = -2;
  const Bits *without_ = nullptr;
  std::vector<Part> parts_;
  CharClasses classes_; ///< Classes whose borders are those of all parts.
  Transitions next_;
  /// Each state consists of one state of each part.
  std::vector<std::vector<int32_t>> states_;
  std::map<std::vector<int32_t>, StateId> ids_;
  std::vector<int32_t> fewest_, most_;
  uint64_t listWork_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_TEXTDFA_H
