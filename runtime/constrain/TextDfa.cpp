#include "runtime/constrain/TextDfa.h"

#include <algorithm>

namespace moert {

//===----------------------------------------------------------------------===//
// One automaton
//===----------------------------------------------------------------------===//

SubsetDfa::SubsetDfa(std::shared_ptr<const CharNfa> nfa)
    : nfa_(std::move(nfa)), marks_(nfa_->stateCount(), 0) {
  borders_ = {0};
  for (const CharSet &set : nfa_->sets())
    for (CharSet::Range range : set.ranges()) {
      borders_.push_back(range.first);
      borders_.push_back(range.last + 1);
    }
  if (nfa_->hasWordBorders())
    for (uint32_t c = 0; c < 0x80; ++c)
      if (c > 0 && isWordChar(c) != isWordChar(c - 1))
        borders_.push_back(c);
  std::ranges::sort(borders_);
  borders_.erase(std::ranges::unique(borders_).begin(), borders_.end());
  for (uint32_t c = 0; c < 0x80; ++c)
    asciiClass_.push_back(
        uint16_t(std::ranges::upper_bound(borders_, c) - borders_.begin() - 1));
  find({nfa_->start()}, false);
}

size_t SubsetDfa::classOf(uint32_t c) const {
  return c < 0x80 ? asciiClass_[c]
                  : size_t(std::ranges::upper_bound(borders_, c) -
                           borders_.begin() - 1);
}

SubsetDfa::StateId SubsetDfa::find(std::vector<CharNfa::StateId> members,
                                   bool afterWord) {
  if (members.empty())
    return kDead;
  // The first state alone is before all text.
  const bool isStart = states_.empty();
  if (isStart) {
    states_.push_back({std::move(members), true, false});
    return 0;
  }
  auto [it, isNew] = ids_.try_emplace({std::move(members), afterWord},
                                      StateId(states_.size()));
  if (isNew)
    states_.push_back({it->first.first, false, afterWord});
  return it->second;
}

std::vector<CharNfa::StateId> SubsetDfa::closed(const State &state, bool isEnd,
                                                bool beforeWord) {
  ++mark_;
  std::vector<CharNfa::StateId> all = state.members;
  for (CharNfa::StateId member : all)
    marks_[size_t(member)] = mark_;
  auto holds = [&](int32_t label) {
    switch (label) {
    case CharNfa::kFree:
      return true;
    case CharNfa::kAtStart:
      return state.isStart;
    case CharNfa::kAtEnd:
      return isEnd;
    case CharNfa::kWordBorder:
      return state.afterWord != beforeWord;
    case CharNfa::kNoWordBorder:
      return state.afterWord == beforeWord;
    default:
      return false;
    }
  };
  for (size_t i = 0; i < all.size(); ++i)
    for (int32_t e = nfa_->firstEdge(all[i]); e >= 0; e = nfa_->edge(e).next) {
      const CharNfa::Edge &edge = nfa_->edge(e);
      ++work_;
      if (edge.label >= 0 || marks_[size_t(edge.target)] == mark_ ||
          !holds(edge.label))
        continue;
      marks_[size_t(edge.target)] = mark_;
      all.push_back(edge.target);
    }
  return all;
}

SubsetDfa::StateId SubsetDfa::next(StateId from, uint32_t c) {
  if (from == kDead)
    return kDead;
  constexpr StateId kUnknown = -2;
  const size_t at = classOf(c);
  {
    std::vector<StateId> &known = states_[size_t(from)].next;
    if (known.empty())
      known.assign(borders_.size(), kUnknown);
    if (known[at] != kUnknown)
      return known[at];
  }
  const bool isWord = nfa_->hasWordBorders() && isWordChar(c);
  std::vector<CharNfa::StateId> targets;
  for (CharNfa::StateId member :
       closed(states_[size_t(from)], /*isEnd=*/false, isWord))
    for (int32_t e = nfa_->firstEdge(member); e >= 0; e = nfa_->edge(e).next) {
      const CharNfa::Edge &edge = nfa_->edge(e);
      if (edge.label >= 0 && nfa_->sets()[size_t(edge.label)].contains(c))
        targets.push_back(edge.target);
    }
  std::ranges::sort(targets);
  targets.erase(std::ranges::unique(targets).begin(), targets.end());
  work_ += targets.size();
  const StateId to = find(std::move(targets), isWord);
  states_[size_t(from)].next[at] = to;
  return to;
}

bool SubsetDfa::accepts(StateId state) {
  if (state == kDead)
    return false;
  if (states_[size_t(state)].accepts < 0) {
    auto all = closed(states_[size_t(state)], /*isEnd=*/true, false);
    states_[size_t(state)].accepts =
        std::ranges::find(all, nfa_->end()) != all.end();
  }
  return states_[size_t(state)].accepts > 0;
}

//===----------------------------------------------------------------------===//
// All conditions
//===----------------------------------------------------------------------===//

TextDfa::TextDfa(const std::vector<TextCondition> &conditions) {
  borders_ = {0};
  for (const TextCondition &condition : conditions) {
    dfas_.emplace_back(condition.nfa);
    isNegated_.push_back(condition.isNegated);
    borders_.insert(borders_.end(), dfas_.back().borders().begin(),
                    dfas_.back().borders().end());
  }
  std::ranges::sort(borders_);
  borders_.erase(std::ranges::unique(borders_).begin(), borders_.end());
  for (uint32_t c = 0; c < 0x80; ++c)
    asciiClass_.push_back(
        uint16_t(std::ranges::upper_bound(borders_, c) - borders_.begin() - 1));
  find(std::vector<int32_t>(dfas_.size(), 0));
}

TextDfa::StateId TextDfa::find(std::vector<int32_t> parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] == SubsetDfa::kDead && !isNegated_[i])
      return kDead;
  auto [it, isNew] =
      ids_.try_emplace(std::move(parts), StateId(states_.size()));
  if (isNew) {
    states_.push_back(it->first);
    next_.emplace_back();
  }
  return it->second;
}

size_t TextDfa::classOf(uint32_t c) const {
  return c < 0x80 ? asciiClass_[c]
                  : size_t(std::ranges::upper_bound(borders_, c) -
                           borders_.begin() - 1);
}

TextDfa::StateId TextDfa::next(StateId from, uint32_t c) {
  if (from == kDead || (c >= 0xD800 && c <= 0xDFFF))
    return kDead;
  if (dfas_.empty())
    return from;
  constexpr StateId kUnknown = -2;
  const size_t at = classOf(c);
  if (next_[size_t(from)].empty())
    next_[size_t(from)].assign(borders_.size(), kUnknown);
  if (StateId known = next_[size_t(from)][at]; known != kUnknown)
    return known;
  std::vector<int32_t> parts(dfas_.size());
  for (size_t i = 0; i < dfas_.size(); ++i)
    parts[i] = dfas_[i].next(states_[size_t(from)][i], c);
  const StateId to = find(std::move(parts));
  next_[size_t(from)][at] = to;
  return to;
}

bool TextDfa::accepts(StateId state) {
  if (state == kDead)
    return false;
  for (size_t i = 0; i < dfas_.size(); ++i)
    if (dfas_[i].accepts(states_[size_t(state)][i]) == isNegated_[i])
      return false;
  return true;
}

uint64_t TextDfa::work() const {
  uint64_t sum = 0;
  for (const SubsetDfa &dfa : dfas_)
    sum += dfa.work();
  return sum;
}

void TextDfa::explore(size_t maxStates, uint64_t maxWork) {
  for (StateId state = 0; size_t(state) < states_.size(); ++state) {
    for (uint32_t c : borders_)
      if (c <= CharSet::kMaxCodePoint)
        next(state, c);
    accepts(state);
    if (states_.size() > maxStates || work() > maxWork)
      return;
  }
  findFewest();
  findMost();
}

void TextDfa::findFewest() {
  std::vector<std::vector<StateId>> before(states_.size());
  std::vector<int32_t> fewest(states_.size(), kFar);
  std::vector<StateId> open;
  for (StateId state = 0; size_t(state) < states_.size(); ++state) {
    for (uint32_t c : borders_)
      if (StateId to = c <= CharSet::kMaxCodePoint ? next(state, c) : kDead;
          to != kDead)
        before[size_t(to)].push_back(state);
    if (accepts(state)) {
      fewest[size_t(state)] = 0;
      open.push_back(state);
    }
  }
  for (size_t i = 0; i < open.size(); ++i)
    for (StateId state : before[size_t(open[i])])
      if (fewest[size_t(state)] == kFar) {
        fewest[size_t(state)] = fewest[size_t(open[i])] + 1;
        open.push_back(state);
      }
  fewest_ = std::move(fewest);
  for (std::vector<StateId> &targets : next_)
    for (StateId &to : targets)
      if (to >= 0 && fewest_[size_t(to)] == kFar)
        to = kDead;
}

void TextDfa::findMost() {
  // Longest paths exist only where no state that leads to an end is in a
  // circle: states are taken off from the ends.
  most_.assign(states_.size(), kFar);
  std::vector<std::set<StateId>> after(states_.size());
  std::vector<std::vector<StateId>> before(states_.size());
  for (StateId state = 0; size_t(state) < states_.size(); ++state)
    for (uint32_t c : borders_)
      if (StateId to = c <= CharSet::kMaxCodePoint ? next(state, c) : kDead;
          to != kDead && after[size_t(state)].insert(to).second)
        before[size_t(to)].push_back(state);
  std::vector<StateId> open;
  std::vector<size_t> left(states_.size());
  for (StateId state = 0; size_t(state) < states_.size(); ++state) {
    left[size_t(state)] = after[size_t(state)].size();
    if (left[size_t(state)] == 0)
      open.push_back(state);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    int32_t longest = 0;
    for (StateId to : after[size_t(open[i])])
      longest = std::max(longest, most_[size_t(to)] + 1);
    most_[size_t(open[i])] = longest;
    for (StateId state : before[size_t(open[i])])
      if (--left[size_t(state)] == 0)
        open.push_back(state);
  }
}

} // namespace moert
