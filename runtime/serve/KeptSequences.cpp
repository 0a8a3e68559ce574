#include "runtime/serve/KeptSequences.h"

#include <algorithm>
#include <ranges>

namespace moert {

/// Tokens that a sequence must have in common with a text to be of use.
static constexpr int32_t kLeastShared = 16;

/// Number of leading tokens that are equal.
static int32_t sharedTokens(std::span<const int32_t> a,
                            std::span<const int32_t> b) {
  return int32_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

void KeptSequences::put(Sequence sequence) {
  if (sequence.position() == 0)
    return;
  sequence.setCancel(nullptr);
  kept_.push_back({std::move(sequence)});
  shrinkTo(limit_);
}

StatusOr<Sequence> KeptSequences::begin(std::span<const int32_t> text,
                                        int32_t group) {
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
  // To copy a page for a few tokens takes as long as to evaluate them.
  if (most < kLeastShared)
    most = 0;
  auto takeBest = [&]() -> StatusOr<Sequence> {
    if (most == best->sequence.position()) {
      Sequence whole = std::move(best->sequence);
      kept_.erase(best);
      engine_.takePrefix(whole, text.subspan(size_t(most)));
      return whole;
    }
    Sequence branch = best->sequence.fork();
    MOE_RETURN_IF_ERROR(branch.rewind(most));
    kept_.splice(kept_.end(), kept_, best);
    return branch;
  };
  // Full pages cannot hold more than this one has.
  if (most > 0 && text.size() - size_t(most) <= size_t(moek::kKvPage))
    return takeBest();
  {
    Sequence fresh = engine_.sequence({.group = group});
    if (engine_.takePrefix(fresh, text) >= most)
      return fresh;
  }
  return takeBest();
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

bool KeptSequences::dropOldest() {
  if (kept_.empty())
    return false;
  kept_.pop_front();
  return true;
}

void KeptSequences::shrinkTo(size_t count) {
  while (kept_.size() > count)
    kept_.pop_front();
}

int32_t KeptSequences::pages() const {
  int32_t sum = 0;
  for (const Kept &each : kept_)
    sum += pagesOf(each.sequence.position());
  return sum;
}

} // namespace moert
