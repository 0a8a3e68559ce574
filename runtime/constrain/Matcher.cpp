//===- Matcher.cpp - Which tokens a grammar allows next -------------------===//

#include "runtime/constrain/Matcher.h"

#include "runtime/base/Text.h"

#include <algorithm>

namespace moert {

Matcher::Matcher(std::shared_ptr<const Automaton> automaton,
                 std::shared_ptr<const TokenTrie> tokens, MatcherLimits limits,
                 std::shared_ptr<ScanLibrary> library)
    : automaton_(std::move(automaton)), tokens_(std::move(tokens)),
      limits_(limits),
      library_(library ? std::move(library) : std::make_shared<ScanLibrary>()),
      seen_(1), scans_(automaton_->scanners().size()) {
  seenIds_.emplace(Seen().hash(), 0);
  auto lock = library_->lock();
  start();
}

void Matcher::start() {
  text_.clear();
  isFull_ = false;
  history_.push_back({close({wayTo(automaton_->start(), kBottom)}), 0});
}

void Matcher::restart() {
  auto lock = library_->lock();
  history_.clear();
  pending_.reset();
  hasTextualMask_ = false;
  tokenCount_ = spent_ = 0;
  start();
}

bool Matcher::isSpent() const {
  auto lock = library_->lock();
  return std::ranges::any_of(learningScans_, [](const LearntScan *scan) {
    return scan->run->isFull();
  });
}

size_t Matcher::bytes() const {
  const size_t mask = (size_t(tokens_->vocabularySize()) + 63) / 64 * 8;
  return positions_.size() * (sizeof(Position) + 256 * sizeof(PositionId)) +
         wayCount_ * sizeof(Way) + masks_.size() * mask;
}

Status Matcher::fullStatus() const {
  return Status(StatusCode::DoesNotFit,
                "the grammar is too ambiguous: after " +
                    counted(tokenCount_, "token") + " it has over " +
                    std::to_string(limits_.ways) +
                    " ways to read the text, or needs over " +
                    std::to_string(limits_.mostPositions()) +
                    " positions for the next token");
}

Status Matcher::accept(int32_t token) {
  auto lock = library_->lock();
  auto refused = [&](const char *why) {
    return Status(StatusCode::Usage,
                  "token " + std::to_string(token) + " " + why);
  };
  PositionId at = history_.back().position;
  if (at == kEnded)
    return refused("follows the end of the text");
  if (at == kDead) // The text so far has too many ways to be read.
    return fullStatus();
  if (tokens_->isEnd(token)) {
    if (!positions_[size_t(at)].canEnd)
      return refused("ends a text that is not complete");
    remember(kEnded);
    return Status::ok();
  }
  std::string_view bytes = tokens_->bytesOf(token);
  if (bytes.empty())
    return refused("is not text");
  if (isCrowded()) {
    pending_.reset();
    forget();
    at = history_.back().position;
  }
  isFull_ = false;
  const uint64_t begun = workSoFar();
  const size_t length = text_.size();
  for (char byte : bytes) {
    if (automaton_->hasChecks())
      text_ += byte;
    at = step(at, uint8_t(byte));
  }
  spent_ += workSoFar() - begun;
  if (!isFull_ && at != kDead) {
    remember(at);
    return Status::ok();
  }
  text_.resize(length);
  return isFull_ ? fullStatus() : refused("is not allowed by the grammar");
}

void Matcher::remember(PositionId at) {
  ++tokenCount_;
  verdicts_.clear();
  pending_.reset();
  hasTextualMask_ = false;
  history_.push_back({at, text_.size()});
  if (history_.size() > limits_.rewind + 1)
    history_.pop_front();
}

Status Matcher::rewind(size_t count) {
  if (count >= history_.size())
    return Status(StatusCode::Usage, "at most " +
                                         counted(history_.size() - 1, "token") +
                                         " can be taken back");
  history_.resize(history_.size() - count);
  text_.resize(history_.back().length);
  pending_.reset();
  hasTextualMask_ = false;
  tokenCount_ -= count;
  return Status::ok();
}

bool Matcher::canEnd() const {
  PositionId at = history_.back().position;
  return at == kEnded || (at >= 0 && positions_[size_t(at)].canEnd);
}

bool Matcher::hasEnded() const {
  PositionId at = history_.back().position;
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
  wayCount_ = 0;
  const std::deque<Seen> seen = std::move(seen_);
  seen_ = {Seen()};
  seenIds_ = {{Seen().hash(), 0}};
  closedNames_.clear();
  // A frame's parent has a smaller number, and the frames that are kept keep
  // their order, so the ways of a position stay sorted.
  std::vector<FrameId> kept(frames.size(), kBottom);
  std::vector<bool> isUsed(frames.size());
  for (const Past &past : history_)
    if (past.position >= 0)
      for (const Way &way : positions[size_t(past.position)].ways)
        for (FrameId f = way.frame; f != kBottom && !isUsed[size_t(f)];
             f = frames[size_t(f)].parent)
          isUsed[size_t(f)] = true;
  for (size_t f = 0; f < frames.size(); ++f) {
    if (!isUsed[f])
      continue;
    Frame frame = frames[f];
    if (frame.parent != kBottom)
      frame.parent = kept[size_t(frame.parent)];
    if (frame.data < 0)
      frame.data = keep(seen[size_t(-frame.data)]);
    kept[f] = FrameId(frames_.size());
    frameIds_.emplace(frame, kept[f]);
    frames_.push_back(frame);
  }
  std::unordered_map<PositionId, PositionId> moved;
  for (Past &past : history_) {
    PositionId &id = past.position;
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
    wayCount_ += old.ways.size();
    positions_.push_back({std::move(old.ways), old.canEnd, nullptr});
    positionIds_.emplace(hashOf(positions_.back()), to);
    moved[id] = to;
    id = to;
  }
}

} // namespace moert
