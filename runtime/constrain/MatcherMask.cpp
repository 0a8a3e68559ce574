// Finds the tokens of the vocabulary that a position allows.
#include "runtime/constrain/Matcher.h"

#include <algorithm>

namespace moert {

namespace {
/// Number of entries that are tried before the work of scanners is looked at
/// again.
constexpr size_t kRound = 64;
} // namespace

uint64_t Matcher::workSoFar() const {
  uint64_t sum = work_;
  for (const LearntScan *scan : learningScans_)
    sum += scan->run->work();
  return sum;
}

bool Matcher::isOver(uint64_t until) {
  return work_ >= until || (++rounds_ % kRound == 0 && workSoFar() >= until);
}

void Matcher::allow(Mask &mask, int32_t token) const {
  if (token >= 0 && token < tokens_->vocabularySize())
    mask[size_t(token) / 64] |= uint64_t(1) << (token % 64);
}

void Matcher::begin(PositionId at) {
  pending_.emplace(Pending{at, {}, {}});
  Pending &pending = *pending_;
  pending.mask.assign((size_t(tokens_->vocabularySize()) + 63) / 64, 0);
  isTextual_ = false;
  if (at == kEnded)
    return;
  if (positions_[size_t(at)].canEnd)
    for (int32_t id : tokens_->ends())
      allow(pending.mask, id);
  // A token is allowed if one of the ways allows it. Those inside a text of
  // which a table is worth while go by themselves.
  std::vector<Way> others;
  const std::vector<Way> ways = positions_[size_t(at)].ways;
  for (const Way &way : ways) {
    const int32_t scan = (*automaton_)[way.state].scan;
    if (scan < 0 || !scanRun(scan).isDense(way.scan)) {
      others.push_back(way);
      continue;
    }
    Job job{.kind = Job::Kind::Table, .way = way};
    job.made = std::make_shared<TokenTable>();
    job.made->inside.assign(pending.mask.size(), 0);
    job.scanPath = {{scanRun(scan).unlimited(way.scan), false}};
    pending.jobs.push_back(std::move(job));
  }
  if (others.empty())
    return;
  const PositionId from =
      others.size() == ways.size() ? at : positionOf(std::move(others), false);
  pending.jobs.push_back(
      {.kind = Job::Kind::Walk, .from = from, .path = {from}});
}

bool Matcher::walk(Job &job, uint64_t until) {
  const std::vector<TokenTrie::Entry> &entries = tokens_->entries();
  const bool isList = job.kind == Job::Kind::List;
  const size_t count = isList ? job.table->leaving.size() : entries.size();
  const bool keepsText = automaton_->hasChecks();
  const size_t length = text_.size();
  // path[n] is the position after n bytes of the entry. An entry is also
  // refused if it shares `dead` bytes with an earlier one that was refused at
  // byte number `dead`.
  while (job.index < count && !isFull_) {
    if (isOver(until))
      return false;
    const size_t index =
        isList ? job.table->leaving[job.index].index : job.index;
    const TokenTrie::Entry &entry = entries[index];
    const uint32_t shared =
        isList ? job.table->leaving[job.index].shared : entry.shared;
    ++work_;
    if (shared >= job.dead) {
      // The entries up to nextApart share as many bytes.
      job.index = isList ? job.index + 1 : entry.nextApart;
      continue;
    }
    ++job.index;
    job.dead = SIZE_MAX;
    std::string_view bytes = tokens_->bytes(entry);
    job.path.resize(shared + 1);
    if (keepsText)
      text_ += bytes.substr(0, shared);
    while (job.path.size() <= bytes.size() && job.dead == SIZE_MAX) {
      const char byte = bytes[job.path.size() - 1];
      if (keepsText)
        text_ += byte;
      const PositionId next = step(job.path.back(), uint8_t(byte));
      if (next == kDead)
        job.dead = job.path.size();
      else
        job.path.push_back(next);
    }
    text_.resize(length);
    if (job.dead == SIZE_MAX)
      allow(pending_->mask, entry.id);
  }
  return true;
}

bool Matcher::makeTable(Job &job, uint64_t until) {
  const std::vector<TokenTrie::Entry> &entries = tokens_->entries();
  ScanRun &run = runOf(job.way);
  const bool hasLimit = run.room(job.way.scan) >= 0;
  TokenTable &table = *job.made;
  auto mayLeave = [&](const TokenTrie::Entry &entry) {
    table.leaving.push_back({uint32_t(&entry - entries.data()),
                             std::min(job.sharedSince, entry.shared)});
    job.sharedSince = UINT32_MAX;
  };
  bool deadHasLeft = !job.scanPath.empty() && job.dead != SIZE_MAX &&
                     job.scanPath.back().hasLeft;
  while (job.index < entries.size()) {
    if (isOver(until))
      return false;
    const TokenTrie::Entry &entry = entries[job.index++];
    ++work_;
    if (entry.shared >= job.dead) {
      // Entries that were left out share more bytes than the one that follows
      // them.
      if (deadHasLeft)
        mayLeave(entry);
      else
        job.index = entry.nextApart;
      continue;
    }
    job.dead = SIZE_MAX;
    std::string_view bytes = tokens_->bytes(entry);
    job.scanPath.resize(entry.shared + 1);
    while (job.scanPath.size() <= bytes.size()) {
      Job::ScanPoint point = job.scanPath.back();
      // The state before the first byte belongs to other ways.
      point.hasLeft |= job.scanPath.size() > 1 && run.canEnd(point.state);
      if (!run.nextUnlimited(point.state,
                             uint8_t(bytes[job.scanPath.size() - 1]))) {
        job.dead = job.scanPath.size();
        job.scanPath.back().hasLeft = point.hasLeft;
        deadHasLeft = point.hasLeft;
        break;
      }
      work_ += 2;
      job.scanPath.push_back(point);
    }
    const ScanState &last = job.scanPath.back().state;
    const int32_t need = run.need(last);
    const bool staysInside =
        job.dead == SIZE_MAX && run.goesOn(last) && (!hasLimit || need >= 0);
    if (staysInside) {
      allow(table.inside, entry.id);
      if (hasLimit)
        table.needs.push_back({need, entry.id});
    }
    const bool leaves = job.dead == SIZE_MAX ? !staysInside : deadHasLeft;
    if (leaves)
      mayLeave(entry);
    else
      job.sharedSince = std::min(job.sharedSince, entry.shared);
  }
  std::ranges::sort(table.needs, [](const auto &a, const auto &b) {
    return a.need > b.need;
  });
  return true;
}

/// Adds the tokens that stay inside a text, and lets those be tried that leave
/// it.
void Matcher::apply(const std::shared_ptr<const TokenTable> &table, Way way) {
  Mask &mask = pending_->mask;
  const int32_t room = scanRun((*automaton_)[way.state].scan).room(way.scan);
  if (room < 0 || table->needs.empty() || table->needs.front().need <= room) {
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] |= table->inside[i];
  } else {
    Mask inside = table->inside;
    for (const TokenTable::Need &need : table->needs) {
      if (need.need <= room)
        break;
      inside[size_t(need.token) / 64] &= ~(uint64_t(1) << (need.token % 64));
    }
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] |= inside[i];
  }
  work_ += mask.size() / 8;
  const PositionId from = positionOf({way}, false);
  pending_->jobs.push_back(
      {.kind = Job::Kind::List, .from = from, .table = table, .path = {from}});
}

bool Matcher::work(uint64_t steps) {
  const uint64_t begun = workSoFar();
  const uint64_t until = begun + std::clamp<uint64_t>(steps, 1, INT64_MAX);
  while (!pending_->jobs.empty() && !isFull_) {
    // A job may add another one.
    Job job = std::move(pending_->jobs.back());
    pending_->jobs.pop_back();
    bool isDone = true;
    if (job.kind == Job::Kind::Table) {
      const Automaton::State &state = (*automaton_)[job.way.state];
      LearntScan &learnt = *scans_[size_t(state.scan)];
      const ScanState key = learnt.run->unlimited(job.way.scan);
      auto known = learnt.tables.find(key);
      // The names that may come depend on the other names.
      const bool isShared = state.turn != Automaton::Turn::Name;
      const bool isKnown = isShared && known != learnt.tables.end();
      isDone = isKnown || makeTable(job, until);
      isFull_ |= learnt.run->isFull();
      if (isDone && !isFull_) {
        if (isShared && !isKnown)
          library_->keep(learnt, key, job.made);
        apply(isKnown ? known->second : job.made, job.way);
      }
    } else {
      isDone = walk(job, until);
    }
    if (!isDone) {
      pending_->jobs.push_back(std::move(job));
      break;
    }
  }
  spent_ += workSoFar() - begun;
  return pending_->jobs.empty() || isFull_;
}

StatusOr<bool> Matcher::prepare(uint64_t steps) {
  auto lock = library_->lock();
  const PositionId at = history_.back().position;
  if (at == kDead)
    return fullStatus();
  if (hasTextualMask_ || masks_.contains(at))
    return true;
  if (!pending_) {
    if (isCrowded())
      forget();
    isFull_ = false;
    begin(history_.back().position);
  }
  if (spent_ > limits_.work + tokenCount_ * limits_.workPerToken)
    return Status(StatusCode::DoesNotFit,
                  "the grammar takes too long: after " +
                      std::to_string(tokenCount_) +
                      " tokens it has taken the time that a text may have; "
                      "make its repetitions and patterns simpler");
  if (!work(steps))
    return false;
  if (isFull_) {
    pending_.reset();
    forget();
    return fullStatus();
  }
  if (isTextual_) {
    textualMask_ = std::move(pending_->mask);
    hasTextualMask_ = true;
  } else {
    if (masks_.size() * pending_->mask.size() * sizeof(uint64_t) >
        kMostMaskBytes)
      masks_.clear();
    masks_[pending_->at] = std::move(pending_->mask);
  }
  pending_.reset();
  return true;
}

StatusOr<std::span<const uint64_t>> Matcher::allowed() {
  bool isReady = false;
  while (!isReady) {
    MOE_ASSIGN_OR_RETURN(isReady, prepare(INT64_MAX));
  }
  if (hasTextualMask_)
    return std::span<const uint64_t>(textualMask_);
  return std::span<const uint64_t>(masks_[history_.back().position]);
}

} // namespace moert
