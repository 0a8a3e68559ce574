#include "runtime/constrain/TextDfa.h"

#include <algorithm>
#include <set>

namespace moert {

CharClasses::CharClasses(std::vector<uint32_t> borders)
    : borders_(std::move(borders)) {
  borders_.push_back(0);
  std::ranges::sort(borders_);
  borders_.erase(std::ranges::unique(borders_).begin(), borders_.end());
  borders_.shrink_to_fit();
  size_t at = 0;
  for (uint32_t c = 0; c < 0x80; ++c) {
    at += at + 1 < borders_.size() && borders_[at + 1] == c;
    ascii_[c] = uint16_t(at);
  }
}

size_t CharClasses::of(uint32_t c) const {
  return c < 0x80 ? ascii_[c]
                  : size_t(std::ranges::upper_bound(borders_, c) -
                           borders_.begin() - 1);
}

static uint64_t keyOf(int32_t from, size_t at) {
  return uint64_t(uint32_t(from)) << 32 | at;
}

int32_t Transitions::find(int32_t from, size_t at) const {
  if (at < asciiCount_)
    return size_t(from) < ascii_.size() && !ascii_[size_t(from)].empty()
               ? ascii_[size_t(from)][at]
               : kUnknown;
  auto it = others_.find(keyOf(from, at));
  return it == others_.end() ? kUnknown : it->second;
}

void Transitions::set(int32_t from, size_t at, int32_t to) {
  if (at >= asciiCount_) {
    others_[keyOf(from, at)] = to;
    return;
  }
  if (ascii_.size() <= size_t(from))
    ascii_.resize(size_t(from) + 1);
  std::vector<int32_t> &targets = ascii_[size_t(from)];
  if (targets.empty())
    targets.assign(asciiCount_, kUnknown);
  targets[at] = to;
}

void Transitions::kill(const std::function<bool(int32_t)> &isDead) {
  auto look = [&](int32_t &to) {
    if (to >= 0 && isDead(to))
      to = -1;
  };
  for (std::vector<int32_t> &targets : ascii_)
    for (int32_t &to : targets)
      look(to);
  for (auto &[key, to] : others_)
    look(to);
}

//===----------------------------------------------------------------------===//
// One automaton
//===----------------------------------------------------------------------===//

static CharClasses classesOf(const CharNfa &nfa) {
  std::vector<uint32_t> borders;
  for (const CharSet &set : nfa.sets())
    for (CharSet::Range range : set.ranges()) {
      borders.push_back(range.first);
      borders.push_back(range.last + 1);
    }
  if (nfa.hasWordBorders())
    for (uint32_t c = 1; c < 0x80; ++c)
      if (isWordChar(c) != isWordChar(c - 1))
        borders.push_back(c);
  return CharClasses(std::move(borders));
}

SubsetDfa::SubsetDfa(std::shared_ptr<const CharNfa> nfa)
    : nfa_(std::move(nfa)), classes_(classesOf(*nfa_)),
      next_(classes_.asciiCount()), marks_(nfa_->stateCount(), 0) {
  find({nfa_->start()}, false);
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
  const size_t at = classes_.of(c);
  if (StateId known = next_.find(from, at); known != Transitions::kUnknown)
    return known;
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
  next_.set(from, at, to);
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

int32_t TextDfa::Part::next(int32_t from, uint32_t c) {
  return list ? list->next(from, c) : dfa->next(from, c);
}

bool TextDfa::Part::accepts(int32_t state) {
  return list ? list->accepts(state) : dfa->accepts(state);
}

static CharClasses classesOf(const std::vector<TextCondition> &conditions) {
  std::vector<uint32_t> borders;
  for (const TextCondition &condition : conditions) {
    if (condition.list) {
      for (uint32_t c : condition.list->chars())
        borders.insert(borders.end(), {c, c + 1});
      continue;
    }
    const CharClasses own = classesOf(*condition.nfa);
    borders.insert(borders.end(), own.borders().begin(), own.borders().end());
  }
  return CharClasses(std::move(borders));
}

static std::shared_ptr<const TextList>
onlyListOf(const std::vector<TextCondition> &conditions) {
  return conditions.size() == 1 ? conditions[0].list : nullptr;
}

TextDfa::TextDfa(const std::vector<TextCondition> &conditions)
    : only_(onlyListOf(conditions)),
      isOnlyNegated_(only_ && conditions[0].isNegated),
      classes_(only_ ? CharClasses() : classesOf(conditions)),
      next_(classes_.asciiCount()) {
  if (only_)
    return;
  std::vector<int32_t> starts;
  for (const TextCondition &condition : conditions) {
    Part part{{}, condition.list, condition.isNegated};
    if (condition.nfa)
      part.dfa.emplace(condition.nfa);
    parts_.push_back(std::move(part));
    starts.push_back(condition.list ? condition.list->start() : 0);
  }
  // There is a first state, even if nothing leads on from it.
  ids_.emplace(starts, 0);
  states_.push_back(std::move(starts));
}

TextDfa::StateId TextDfa::find(std::vector<int32_t> parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] == SubsetDfa::kDead && !parts_[i].isNegated)
      return kDead;
  auto [it, isNew] =
      ids_.try_emplace(std::move(parts), StateId(states_.size()));
  if (isNew)
    states_.push_back(it->first);
  return it->second;
}

TextDfa::StateId TextDfa::next(StateId from, uint32_t c) {
  if (from == kDead || (c >= 0xD800 && c <= 0xDFFF))
    return kDead;
  if (from == kUnlisted)
    return kUnlisted;
  if (only_)
    return unlisted(only_->next(from, c, without_));
  if (parts_.empty())
    return from;
  const size_t at = classes_.of(c);
  if (StateId known = next_.find(from, at); known != Transitions::kUnknown)
    return known;
  std::vector<int32_t> parts(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    listWork_ += parts_[i].list != nullptr;
    parts[i] = parts_[i].next(states_[size_t(from)][i], c);
  }
  const StateId to = find(std::move(parts));
  next_.set(from, at, to);
  return to;
}

bool TextDfa::accepts(StateId state) {
  if (state == kDead)
    return false;
  if (only_)
    return state == kUnlisted ||
           only_->accepts(state, without_) != isOnlyNegated_;
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].accepts(states_[size_t(state)][i]) == parts_[i].isNegated)
      return false;
  return true;
}

uint32_t TextDfa::nextDifferent(StateId state, uint32_t c) const {
  if (only_ && state != kUnlisted) {
    // Besides the characters of the list, one more leads away from it.
    if (isOnlyNegated_ && only_->firstFrom(state, c) == c)
      return c + 1;
    return only_->firstFrom(state, c + 1);
  }
  auto border = std::ranges::upper_bound(classes_.borders(), c);
  return border == classes_.borders().end() ? TextList::kNoChar : *border;
}

uint64_t TextDfa::work() const {
  uint64_t sum = listWork_;
  for (const Part &part : parts_)
    sum += part.dfa ? part.dfa->work() : 0;
  return sum;
}

template <class Visit> void TextDfa::visitTargets(StateId state, Visit visit) {
  for (uint32_t c : classes_.borders())
    if (StateId to = c <= CharSet::kMaxCodePoint ? next(state, c) : kDead;
        to != kDead)
      visit(to);
}

void TextDfa::explore(size_t maxStates, uint64_t maxWork) {
  for (StateId state = 0; size_t(state) < states_.size(); ++state) {
    visitTargets(state, [](StateId) {});
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
    visitTargets(state,
                 [&](StateId to) { before[size_t(to)].push_back(state); });
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
  next_.kill([&](int32_t to) { return fewest_[size_t(to)] == kFar; });
}

void TextDfa::findMost() {
  // Longest paths exist only where no state that leads to an end is in a
  // circle: states are taken off from the ends.
  most_.assign(states_.size(), kFar);
  std::vector<std::set<StateId>> after(states_.size());
  std::vector<std::vector<StateId>> before(states_.size());
  for (StateId state = 0; size_t(state) < states_.size(); ++state)
    visitTargets(state, [&](StateId to) {
      if (after[size_t(state)].insert(to).second)
        before[size_t(to)].push_back(state);
    });
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
