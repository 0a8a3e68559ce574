//===- Matcher.cpp - Which tokens a grammar allows next -------------------===//

#include "runtime/constrain/Matcher.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <set>

namespace moert {

namespace {
/// Positions during one token, as a multiple of those between tokens.
constexpr size_t kWithinToken = 8;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}
} // namespace

uint64_t Matcher::hashOf(const Position &position) {
  uint64_t hash = position.canEnd;
  for (Way way : position.ways)
    hash = mixed(mixed(hash, uint32_t(way.state)), uint32_t(way.frame));
  return hash;
}

Matcher::Matcher(std::shared_ptr<const Automaton> automaton,
                 std::shared_ptr<const TokenTrie> tokens, MatcherLimits limits)
    : automaton_(std::move(automaton)), tokens_(std::move(tokens)),
      limits_(limits) {
  start();
}

void Matcher::start() {
  history_.push_back(close({{automaton_->start(), kBottom}}));
}

void Matcher::restart() {
  history_.clear();
  tokenCount_ = 0;
  isFull_ = false;
  start();
}

size_t Matcher::bytes() const {
  const size_t mask = (size_t(tokens_->vocabularySize()) + 63) / 64 * 8;
  return positions_.size() * (sizeof(Position) + 256 * sizeof(PositionId)) +
         masks_.size() * mask;
}

Matcher::FrameId Matcher::frame(Automaton::StateId followUp, FrameId parent) {
  uint64_t key = uint64_t(uint32_t(followUp)) << 32 | uint32_t(parent);
  auto [it, isNew] = frameIds_.try_emplace(key, FrameId(frames_.size()));
  if (isNew)
    frames_.push_back(
        {followUp, parent,
         parent == kBottom ? 1 : frames_[size_t(parent)].depth + 1});
  return it->second;
}

Matcher::PositionId Matcher::close(std::vector<Way> open) {
  std::set<Way> seen(open.begin(), open.end());
  Position position{{}, false, nullptr};
  auto follow = [&](Way way) {
    if (seen.insert(way).second)
      open.push_back(way);
  };
  while (!open.empty()) {
    if (seen.size() > limits_.ways) {
      isFull_ = true;
      return kDead;
    }
    Way way = open.back();
    open.pop_back();
    const Automaton::State &state = (*automaton_)[way.state];
    if (!state.bytes.empty())
      position.ways.push_back(way);
    for (Automaton::StateId target : state.empty)
      follow({target, way.frame});
    for (const Automaton::Call &call : state.calls) {
      FrameId inside = way.frame;
      if (call.followUp != Automaton::kNone)
        inside = frame(call.followUp, way.frame);
      if (inside == kBottom || frames_[size_t(inside)].depth <= limits_.depth)
        follow({call.entry, inside});
    }
    if (!state.isEnd)
      continue;
    if (way.frame == kBottom)
      position.canEnd = true;
    else
      follow({frames_[size_t(way.frame)].followUp,
              frames_[size_t(way.frame)].parent});
  }
  if (position.ways.empty() && !position.canEnd)
    return kDead;
  std::ranges::sort(position.ways);
  uint64_t hash = hashOf(position);
  auto [begin, end] = positionIds_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (const Position &known = positions_[size_t(it->second)];
        known.canEnd == position.canEnd && known.ways == position.ways)
      return it->second;
  if (positions_.size() >= kWithinToken * limits_.positions) {
    isFull_ = true;
    return kDead;
  }
  auto id = PositionId(positions_.size());
  positions_.push_back(std::move(position));
  positionIds_.emplace(hash, id);
  return id;
}

Matcher::PositionId Matcher::step(PositionId from, uint8_t byte) {
  if (from < 0)
    return kDead;
  if (!positions_[size_t(from)].next) {
    positions_[size_t(from)].next =
        std::make_unique<std::array<PositionId, 256>>();
    positions_[size_t(from)].next->fill(kUnknown);
  }
  PositionId known = (*positions_[size_t(from)].next)[byte];
  if (known != kUnknown)
    return known;
  std::vector<Way> targets;
  for (Way way : positions_[size_t(from)].ways)
    for (const Automaton::ByteEdge &edge : (*automaton_)[way.state].bytes)
      if (edge.first <= byte && byte <= edge.last)
        targets.push_back({edge.target, way.frame});
  std::ranges::sort(targets);
  targets.erase(std::ranges::unique(targets).begin(), targets.end());
  PositionId to = targets.empty() ? kDead : close(std::move(targets));
  // A step that exceeded a limit is not remembered, because it may succeed once
  // other positions have been forgotten.
  if (!isFull_)
    (*positions_[size_t(from)].next)[byte] = to;
  return to;
}

Status Matcher::fullStatus() const {
  return Status(StatusCode::DoesNotFit,
                "the grammar is too ambiguous: after " +
                    counted(tokenCount_, "token") + " it has over " +
                    std::to_string(limits_.ways) +
                    " ways to read the text, or needs over " +
                    std::to_string(kWithinToken * limits_.positions) +
                    " positions for the next token");
}

void Matcher::computeMask(PositionId at, std::vector<uint64_t> &mask) {
  mask.assign((size_t(tokens_->vocabularySize()) + 63) / 64, 0);
  auto allow = [&](int32_t id) {
    if (id >= 0 && id < tokens_->vocabularySize())
      mask[size_t(id) / 64] |= uint64_t(1) << (id % 64);
  };
  if (at == kEnded)
    return;
  if (positions_[size_t(at)].canEnd)
    for (int32_t id : tokens_->ends())
      allow(id);
  // path[n] is the position after n bytes of the entry. An entry is also
  // refused if it shares `dead` bytes with an earlier one that was refused at
  // byte number `dead`.
  std::vector<PositionId> path = {at};
  size_t dead = SIZE_MAX;
  for (const TokenTrie::Entry &entry : tokens_->entries()) {
    if (entry.shared >= dead)
      continue;
    dead = SIZE_MAX;
    std::string_view bytes = tokens_->bytes(entry);
    path.resize(entry.shared + 1);
    while (path.size() <= bytes.size() && dead == SIZE_MAX) {
      PositionId next = step(path.back(), uint8_t(bytes[path.size() - 1]));
      if (next == kDead)
        dead = path.size();
      else
        path.push_back(next);
    }
    if (dead == SIZE_MAX)
      allow(entry.id);
  }
}

StatusOr<std::span<const uint64_t>> Matcher::allowed() {
  if (positions_.size() > limits_.positions)
    forget();
  if (history_.back() == kDead)
    return fullStatus();
  auto [it, isNew] = masks_.try_emplace(history_.back());
  if (isNew) {
    isFull_ = false;
    computeMask(history_.back(), it->second);
    if (isFull_) {
      masks_.erase(it);
      forget();
      return fullStatus();
    }
  }
  return std::span<const uint64_t>(it->second);
}

Status Matcher::accept(int32_t token) {
  auto refused = [&](const char *why) {
    return Status(StatusCode::Usage,
                  "token " + std::to_string(token) + " " + why);
  };
  PositionId at = history_.back();
  if (at == kEnded)
    return refused("follows the end of the text");
  if (at == kDead) // The beginning has too many ways.
    return fullStatus();
  if (tokens_->isEnd(token)) {
    if (!canEnd())
      return refused("ends a text that is not complete");
    remember(kEnded);
    return Status::ok();
  }
  std::string_view bytes = tokens_->bytesOf(token);
  if (bytes.empty())
    return refused("is not text");
  isFull_ = false;
  for (char byte : bytes)
    at = step(at, uint8_t(byte));
  if (isFull_)
    return fullStatus();
  if (at == kDead)
    return refused("is not allowed by the grammar");
  remember(at);
  return Status::ok();
}

void Matcher::remember(PositionId at) {
  ++tokenCount_;
  history_.push_back(at);
  if (history_.size() > limits_.rewind + 1)
    history_.pop_front();
}

Status Matcher::rewind(size_t count) {
  if (count >= history_.size())
    return Status(StatusCode::Usage, "at most " +
                                         counted(history_.size() - 1, "token") +
                                         " can be taken back");
  history_.resize(history_.size() - count);
  tokenCount_ -= count;
  return Status::ok();
}

bool Matcher::canEnd() const {
  PositionId at = history_.back();
  return at == kEnded || (at >= 0 && positions_[size_t(at)].canEnd);
}

bool Matcher::hasEnded() const {
  PositionId at = history_.back();
  return at == kEnded || (at >= 0 && positions_[size_t(at)].ways.empty());
}

void Matcher::forget() {
  std::vector<Position> positions = std::move(positions_);
  std::vector<Frame> frames = std::move(frames_);
  positions_.clear();
  frames_.clear();
  frameIds_.clear();
  positionIds_.clear();
  masks_.clear();
  // A frame's parent has a smaller number, and the frames that are kept keep
  // their order, so the ways of a position stay sorted.
  std::vector<FrameId> kept(frames.size(), kBottom);
  std::vector<bool> isUsed(frames.size());
  for (PositionId id : history_)
    if (id >= 0)
      for (Way way : positions[size_t(id)].ways)
        for (FrameId f = way.frame; f != kBottom && !isUsed[size_t(f)];
             f = frames[size_t(f)].parent)
          isUsed[size_t(f)] = true;
  for (size_t f = 0; f < frames.size(); ++f)
    if (isUsed[f])
      kept[f] = frame(frames[f].followUp, frames[f].parent == kBottom
                                              ? kBottom
                                              : kept[size_t(frames[f].parent)]);
  std::unordered_map<PositionId, PositionId> moved;
  for (PositionId &id : history_) {
    if (id < 0)
      continue;
    if (auto it = moved.find(id); it != moved.end()) {
      id = it->second;
      continue;
    }
    Position &old = positions[size_t(id)];
    for (Way &way : old.ways)
      if (way.frame != kBottom)
        way.frame = kept[size_t(way.frame)];
    auto to = PositionId(positions_.size());
    positions_.push_back({std::move(old.ways), old.canEnd, nullptr});
    positionIds_.emplace(hashOf(positions_.back()), to);
    moved[id] = to;
    id = to;
  }
}

} // namespace moert
