#include "runtime/constrain/CharNfa.h"

#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert {

std::vector<uint32_t> codePointsOf(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = nextUtf8(text.substr(i));
    points.push_back(unit.kind == Utf8Kind::Valid
                         ? decodeUtf8(text.data() + i, unit.length)
                         : 0xFFFD);
    i += unit.length;
  }
  return points;
}

bool isWordChar(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z') || c == '_';
}

CharNfa::StateId CharNfa::addState() {
  heads_.push_back(-1);
  return StateId(heads_.size()) - 1;
}

void CharNfa::addEdge(StateId from, int32_t label, StateId to) {
  hasWordBorders_ |= label == kWordBorder || label == kNoWordBorder;
  edges_.push_back({label, to, heads_[size_t(from)]});
  heads_[size_t(from)] = int32_t(edges_.size()) - 1;
}

int32_t CharNfa::setIndex(const CharSet &set) {
  // Expressions have few sets, and repeat the ones used last.
  constexpr size_t kLookedAt = 64;
  for (size_t i = sets_.size(), n = 0; i-- > 0 && n < kLookedAt; ++n)
    if (sets_[i] == set)
      return int32_t(i);
  sets_.push_back(set);
  return int32_t(sets_.size()) - 1;
}

void CharNfa::addChars(StateId from, const CharSet &set, StateId to) {
  if (!set.isEmpty())
    addEdge(from, setIndex(set), to);
}

CharNfa CharNfa::ofTextsWith(std::string_view text) {
  CharNfa nfa;
  StateId at = nfa.addState();
  const StateId start = at;
  nfa.addChars(start, CharSet::all(), start);
  for (uint32_t c : codePointsOf(text)) {
    const StateId next = nfa.addState();
    nfa.addChars(at, CharSet::only(c), next);
    at = next;
  }
  nfa.addChars(at, CharSet::all(), at);
  nfa.setEnds(start, at);
  return nfa;
}

} // namespace moert
