// Steps from one position to the next.
#include "runtime/constrain/Matcher.h"
#include "runtime/constrain/Regex.h"

#include <algorithm>
#include <bit>
#include <set>

namespace moert {

static uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

uint64_t Matcher::Seen::hash() const {
  uint64_t hash = mixed(uint64_t(uint32_t(count)) << 32 | uint32_t(name),
                        uint64_t(required));
  for (uint64_t word : bits)
    hash = mixed(hash, word);
  for (uint64_t word : gone)
    hash = mixed(hash, ~word);
  return hash;
}

size_t Matcher::FrameHash::operator()(const Frame &frame) const {
  uint64_t hash = mixed(uint32_t(frame.followUp), uint32_t(frame.parent));
  return mixed(mixed(hash, uint64_t(uint32_t(frame.data)) << 32 | frame.start),
               uint32_t(frame.check));
}

uint64_t Matcher::hashOf(const Position &position) {
  uint64_t hash = position.canEnd;
  for (const Way &way : position.ways) {
    hash = mixed(mixed(hash, uint32_t(way.state)), uint32_t(way.frame));
    hash = mixed(mixed(hash, uint32_t(way.scan.at)),
                 uint64_t(way.scan.inside) << 32 | uint32_t(way.scan.count));
  }
  return hash;
}

Matcher::FrameId Matcher::frame(Frame frame) {
  frame.start = 0;
  frame.depth = 1;
  if (frame.parent != kBottom) {
    frame.start = frames_[size_t(frame.parent)].start;
    frame.depth = frames_[size_t(frame.parent)].depth + 1;
  }
  if (frame.check >= 0 &&
      automaton_->check(frame.check).scope() == TextCheck::Scope::Own) {
    frame.start = uint32_t(text_.size());
    isTextual_ = true;
  }
  auto [it, isNew] = frameIds_.try_emplace(frame, FrameId(frames_.size()));
  if (isNew)
    frames_.push_back(frame);
  return it->second;
}

ScanRun &Matcher::scanRun(int32_t index) {
  std::shared_ptr<LearntScan> &scan = scans_[size_t(index)];
  if (!scan) {
    scan = library_->find(automaton_->scanners()[size_t(index)]);
    if (scan->run->learns())
      learningScans_.push_back(scan.get());
  }
  scan->run->leaveOut(nullptr);
  return *scan->run;
}

Matcher::Way Matcher::wayTo(Automaton::StateId state, FrameId frame) {
  Way way{state, frame};
  if (int32_t scan = (*automaton_)[state].scan; scan >= 0)
    way.scan = scanRun(scan).start();
  return way;
}

/// Asks a check. White space before the last bracket of a list or an object
/// changes nothing, and tokens have it in many forms.
bool Matcher::holds(int32_t check, std::string_view text) {
  const bool isClosed = automaton_->check(check).ofJson() &&
                        (text.ends_with('}') || text.ends_with(']'));
  work_ += 64 + text.size() / 16;
  auto ask = [&] {
    const uint64_t before = BacktrackingRegex::workOfThread();
    const bool verdict = automaton_->check(check).holds(text);
    work_ += text.size() / 2 + BacktrackingRegex::workOfThread() - before;
    return verdict;
  };
  if (!isClosed)
    return ask();
  const size_t end = text.find_last_not_of(" \n\t\r", text.size() - 2) + 1;
  std::string key = std::to_string(check) + text.back();
  key += text.substr(0, end);
  auto [it, isNew] = verdicts_.try_emplace(std::move(key), false);
  if (isNew)
    it->second = ask();
  return it->second;
}

Matcher::PositionId Matcher::close(std::vector<Way> open) {
  std::set<Way> seen(open.begin(), open.end());
  std::vector<Way> ways;
  bool canEnd = false;
  auto follow = [&](Way way) {
    const bool fits = way.frame == kBottom ||
                      frames_[size_t(way.frame)].depth <= limits_.depth;
    if (fits && seen.insert(way).second)
      open.push_back(way);
  };
  std::function<void(FrameId)> leave = [&](FrameId id) {
    if (id == kBottom) {
      canEnd = true;
      return;
    }
    const Frame left = frames_[size_t(id)];
    if (left.check >= 0) {
      isTextual_ = true;
      const std::string_view text = std::string_view(text_).substr(left.start);
      if (!holds(left.check, text))
        return;
    }
    follow(wayTo(left.followUp, left.parent));
  };
  while (!open.empty()) {
    if (seen.size() > limits_.ways) {
      isFull_ = true;
      return kDead;
    }
    const Way way = open.back();
    open.pop_back();
    const Automaton::State &state = (*automaton_)[way.state];
    if (!state.bytes.empty())
      ways.push_back(way);
    if (state.scan >= 0) {
      ScanRun &run = runOf(way);
      if (run.goesOn(way.scan))
        ways.push_back(way);
      const bool canEnd = run.canEnd(way.scan);
      if (canEnd && state.turn == Automaton::Turn::Name)
        followName(way, state, follow);
      else if (canEnd)
        follow(wayTo(state.scanEnd, way.frame));
    }
    for (Automaton::StateId target : state.empty)
      follow(wayTo(target, way.frame));
    for (const Automaton::Call &call : state.calls) {
      FrameId inside = way.frame;
      if (call.followUp != Automaton::kNone)
        inside = frame({.followUp = call.followUp,
                        .parent = way.frame,
                        .check = call.check});
      follow(wayTo(call.entry, inside));
    }
    if (state.series >= 0 && state.scan < 0)
      followSeries(way, state, follow, leave);
    if (state.isEnd)
      leave(way.frame);
  }
  work_ += 8 * seen.size();
  if (ways.empty() && !canEnd)
    return kDead;
  return positionOf(std::move(ways), canEnd);
}

Matcher::PositionId Matcher::positionOf(std::vector<Way> ways, bool canEnd) {
  Position position{std::move(ways), canEnd, nullptr};
  std::ranges::sort(position.ways);
  const uint64_t hash = hashOf(position);
  auto [begin, end] = positionIds_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (const Position &known = positions_[size_t(it->second)];
        known.canEnd == position.canEnd && known.ways == position.ways)
      return it->second;
  wayCount_ += position.ways.size();
  if (positions_.size() >= limits_.mostPositions() ||
      wayCount_ > 8 * limits_.allWays()) {
    isFull_ = true;
    return kDead;
  }
  auto id = PositionId(positions_.size());
  positions_.push_back(std::move(position));
  positionIds_.emplace(hash, id);
  return id;
}

/// Whether what has been learnt takes more room than it may between tokens.
bool Matcher::isCrowded() const {
  return positions_.size() > limits_.positions ||
         wayCount_ > limits_.allWays() || frames_.size() > limits_.allWays() ||
         seen_.size() > limits_.positions;
}

Matcher::PositionId Matcher::step(PositionId from, uint8_t byte) {
  if (from < 0)
    return kDead;
  ++work_;
  if (!positions_[size_t(from)].next) {
    positions_[size_t(from)].next =
        std::make_unique<std::array<PositionId, 256>>();
    positions_[size_t(from)].next->fill(kUnknown);
  }
  PositionId known = (*positions_[size_t(from)].next)[byte];
  if (known != kUnknown)
    return known;
  std::vector<Way> targets;
  for (const Way &way : positions_[size_t(from)].ways) {
    const Automaton::State &state = (*automaton_)[way.state];
    for (const Automaton::ByteEdge &edge : state.bytes)
      if (edge.first <= byte && byte <= edge.last)
        targets.push_back(wayTo(edge.target, way.frame));
    if (state.scan >= 0) {
      Way next = way;
      ScanRun &run = runOf(way);
      if (run.next(next.scan, byte))
        targets.push_back(next);
      isFull_ |= run.isFull();
    }
  }
  work_ += positions_[size_t(from)].ways.size();
  std::ranges::sort(targets);
  targets.erase(std::ranges::unique(targets).begin(), targets.end());
  const bool wasTextual = std::exchange(isTextual_, false);
  PositionId to = targets.empty() ? kDead : close(std::move(targets));
  // A step that exceeded a limit is not remembered, because it may succeed once
  // other positions have been forgotten.
  if (!isFull_ && !isTextual_)
    (*positions_[size_t(from)].next)[byte] = to;
  isTextual_ |= wasTextual;
  return to;
}

} // namespace moert
