#include "runtime/serve/PrefillChunk.h"

#include <algorithm>

namespace moert {

/// Weight of a new duration in the average: about the last eight count.
static constexpr double kNewStepWeight = 1.0 / 8;

PrefillChunk::PrefillChunk(int32_t fixed, int32_t ubatch, double factor)
    : fixed_(fixed), ubatch_(ubatch), factor_(factor), learned_(kFirst) {}

int32_t PrefillChunk::tokens(bool othersWait) const {
  if (fixed_ > 0)
    return std::min(fixed_, ubatch_);
  return othersWait ? std::min(int32_t(learned_), ubatch_) : ubatch_;
}

void PrefillChunk::observe(int32_t promptTokens, int32_t generating,
                           double seconds) {
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
  const double wanted = (factor_ - 1) * plainSeconds_;
  const double used = std::max(seconds - plainSeconds_, plainSeconds_ / 64);
  const double change = std::clamp(wanted / used, 0.5, 2.0);
  // A prompt's end says little about what a whole chunk takes.
  if (change > 1 && promptTokens < int32_t(learned_))
    return;
  learned_ = std::clamp(promptTokens * change, double(kLeast),
                        std::max(double(kLeast), double(ubatch_)));
}

} // namespace moert
