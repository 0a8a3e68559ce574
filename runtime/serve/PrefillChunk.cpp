#include "runtime/serve/PrefillChunk.h"

#include <algorithm>
#include <bit>

namespace moert {

/// Weight of a new duration in the average: about the last eight count.
static constexpr double kNewStepWeight = 1.0 / 8;

PrefillChunk::PrefillChunk(int32_t fixed, int32_t ubatch, double factor)
    : fixed_(fixed), ubatch_(ubatch), factor_(factor) {}

size_t PrefillChunk::rangeOf(int32_t position) {
  const auto ranges = uint32_t(std::max(position, 0)) / kFirstRange;
  return std::min<size_t>(size_t(std::bit_width(ranges)), kRanges - 1);
}

/// Twice the position takes at most twice the time. Near the beginning the
/// position hardly matters.
double PrefillChunk::Learned::at(int32_t where) const {
  const int32_t from = std::max(position, kFirstRange / 2);
  return where <= from ? tokens : tokens * from / where;
}

double PrefillChunk::learned(int32_t position) const {
  const size_t range = rangeOf(position);
  for (size_t below = range + 1; below-- > 0;)
    if (learned_[below].tokens > 0)
      return learned_[below].at(position);
  for (size_t above = range + 1; above < kRanges; ++above)
    if (learned_[above].tokens > 0)
      return learned_[above].tokens;
  return Learned{kFirst, 0}.at(position);
}

int32_t PrefillChunk::tokens(bool othersWait, int32_t position) const {
  if (fixed_ > 0)
    return std::min(fixed_, ubatch_);
  if (!othersWait)
    return ubatch_;
  return std::min(std::max(int32_t(learned(position)), kLeast), ubatch_);
}

void PrefillChunk::observe(int32_t promptTokens, int32_t position,
                           int32_t generating, double seconds) {
  if (generating == 0)
    return;
  if (promptTokens == 0) {
    plainSeconds_ =
        plainSeconds_ == 0
            ? seconds
            : plainSeconds_ + kNewStepWeight * (seconds - plainSeconds_);
    return;
  }
  if (plainSeconds_ == 0)
    return;
  const double wanted = std::min((factor_ - 1) * plainSeconds_,
                                 std::max(kMostSeconds, plainSeconds_));
  const double used = std::max(seconds - plainSeconds_, plainSeconds_ / 64);
  const double change = std::clamp(wanted / used, 0.5, 2.0);
  // A prompt's end says little about what a whole chunk takes.
  if (change > 1 && promptTokens < int32_t(learned(position)))
    return;
  learned_[rangeOf(position)] = {
      std::clamp(promptTokens * change, double(kLeast),
                 std::max(double(kLeast), double(ubatch_))),
      position};
}

} // namespace moert
