//===- CharNfa.h - Automata over code points --------------------*- C++ -*-===//
//
// What a text may be, as a nondeterministic automaton that reads code points:
// regular expressions (Regex.h) are translated into it.
// TextDfa.h makes it deterministic where texts go.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_CHARNFA_H
#define MOE_RUNTIME_CONSTRAIN_CHARNFA_H

#include "runtime/constrain/CharSet.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Immutable once built; threads may share it then.
class CharNfa {
public:
  using StateId = int32_t;

  /// What an edge needs: a code point of the set number `label`, or nothing
  /// but, where it is negative, one of these conditions.
  enum Label : int32_t {
    kFree = -1,    ///< The edge needs nothing.
    kAtStart = -2, ///< No code point stands before.
    kAtEnd = -3,   ///< No code point follows.
    /// One of the neighbours is a word character, the other is not.
    kWordBorder = -4,
    kNoWordBorder = -5 ///< Both neighbours are word characters, or none is.
  };
  struct Edge {
    int32_t label;
    StateId target;
    int32_t next; ///< Next edge of the same state; -1: none.
    bool operator==(const Edge &) const = default;
  };

  StateId addState();
  void addEdge(StateId from, int32_t label, StateId to);
  void addChars(StateId from, const CharSet &set, StateId to);

  StateId start() const { return start_; }
  StateId end() const { return end_; }
  void setEnds(StateId start, StateId end) { start_ = start, end_ = end; }
  size_t stateCount() const { return heads_.size(); }
  const std::vector<CharSet> &sets() const { return sets_; }
  /// The first edge of a state in edges(); -1: none.
  int32_t firstEdge(StateId state) const { return heads_[size_t(state)]; }
  const Edge &edge(int32_t index) const { return edges_[size_t(index)]; }
  /// Whether edges have conditions about word characters.
  bool hasWordBorders() const { return hasWordBorders_; }

  /// The automaton of all texts that contain `text`.
  static CharNfa ofTextsWith(std::string_view text);

  bool operator==(const CharNfa &) const = default;

private:
  int32_t setIndex(const CharSet &set);

  std::vector<int32_t> heads_;
  std::vector<Edge> edges_;
  std::vector<CharSet> sets_;
  StateId start_ = -1, end_ = -1;
  bool hasWordBorders_ = false;
};

/// The code points of a text, which is UTF-8.
std::vector<uint32_t> codePointsOf(std::string_view text);

/// Whether \w matches a code point (ECMA-262).
bool isWordChar(uint32_t c);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_CHARNFA_H
