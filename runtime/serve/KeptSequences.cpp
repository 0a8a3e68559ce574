#include "runtime/serve/KeptSequences.h"

#include <algorithm>
#include <bit>
#include <ranges>

namespace moert {

/// Tokens that a sequence must have in common with a text to be of use.
static constexpr int32_t kLeastShared = 16;

/// New texts, as short as itself, that a conversation outlives: an agent begins
/// a handful between two turns.
static constexpr uint64_t kTextsOutlived = 6;

/// Number of leading tokens that are equal.
static int32_t sharedTokens(std::span<const int32_t> a,
                            std::span<const int32_t> b) {
  return int32_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

uint64_t KeptSequences::worthOf(int32_t turns, int32_t tokens) const {
  return texts_ + (turns > 0 ? kTextsOutlived : 0) +
         uint64_t(std::bit_width(uint32_t(pagesOf(tokens))));
}

void KeptSequences::put(Sequence sequence, int32_t turns) {
  if (sequence.position() == 0)
    return;
  sequence.setCancel(nullptr);
  texts_ += turns == 0;
  const uint64_t worth = worthOf(turns, sequence.position());
  kept_.push_back({std::move(sequence), turns, worth});
  shrinkTo(limit_);
}

StatusOr<KeptSequences::Begun>
KeptSequences::begin(std::span<const int32_t> text, int32_t group) {
  const std::span<const int32_t> prefix = text.first(text.size() - 1);
  const bool hasStates = engine_.stateSlots() > 0;
  auto best = kept_.end();
  int32_t most = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->sequence.options().group != group)
      continue;
    const int32_t shared = sharedTokens(it->sequence.tokens(), prefix);
    // A state is that after the last token: there is none in the middle.
    if (shared > most && (!hasStates || shared == it->sequence.position())) {
      best = it;
      most = shared;
    }
  }
  // Copying a page for a few tokens takes as long as evaluating them.
  if (most < kLeastShared)
    most = 0;
  auto turnsAfter = [&](int32_t shared) {
    const int32_t before = best == kept_.end() ? 0 : best->turns;
    return size_t(shared) * 2 > text.size() ? before + 1 : 0;
  };
  auto takeBest = [&]() -> StatusOr<Begun> {
    const int32_t turns = turnsAfter(most);
    if (most == best->sequence.position()) {
      Sequence whole = std::move(best->sequence);
      kept_.erase(best);
      engine_.takePrefix(whole, text.subspan(size_t(most)));
      return Begun{std::move(whole), turns};
    }
    Sequence branch = best->sequence.fork();
    MOE_RETURN_IF_ERROR(branch.rewind(most));
    kept_.splice(kept_.end(), kept_, best);
    best->worth = std::max(best->worth, worthOf(0, most));
    return Begun{std::move(branch), turns};
  };
  // Full pages cannot hold more than this one has.
  if (most > 0 && text.size() - size_t(most) <= size_t(moek::kKvPage))
    return takeBest();
  {
    Sequence fresh = engine_.sequence({.group = group});
    if (engine_.takePrefix(fresh, text) >= most) {
      const int32_t turns = turnsAfter(fresh.position());
      return Begun{std::move(fresh), turns};
    }
  }
  return takeBest();
}

int32_t KeptSequences::shared(std::span<const int32_t> text,
                              int32_t group) const {
  int32_t most = 0;
  for (const Kept &each : kept_)
    if (each.sequence.options().group == group)
      most = std::max(most, sharedTokens(each.sequence.tokens(), text));
  return most;
}

bool KeptSequences::hasToStore(int32_t leastTokens) const {
  return std::ranges::any_of(kept_, [&](const Kept &each) {
    return !each.wasReturned && each.sequence.position() >= leastTokens;
  });
}

const Sequence *KeptSequences::nextToStore(int32_t leastTokens,
                                           uint64_t mostBytes) {
  for (Kept &each : kept_ | std::views::reverse)
    if (!each.wasReturned && each.sequence.position() >= leastTokens &&
        each.sequence.savedBytes() <= mostBytes) {
      each.wasReturned = true;
      return &each.sequence;
    }
  return nullptr;
}

bool KeptSequences::dropLeast() {
  if (kept_.empty())
    return false;
  kept_.erase(std::ranges::min_element(kept_, {}, &Kept::worth));
  return true;
}

void KeptSequences::shrinkTo(size_t count) {
  while (kept_.size() > count)
    (void)dropLeast();
}

int32_t KeptSequences::pages() const {
  int32_t sum = 0;
  for (const Kept &each : kept_)
    sum += pagesOf(each.sequence.position());
  return sum;
}

} // namespace moert
