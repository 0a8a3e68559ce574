#include "runtime/serve/DraftPolicy.h"

#include <algorithm>

namespace moert {

/// Weight of a new duration in the average.
static constexpr double kNewDraftStepWeight = 0.125;
/// How fast the measured cost of more rows is forgotten: by half in 700 steps.
static constexpr double kForgetting = 0.001;

void DraftPolicy::observe(int32_t rows, double seconds) {
  if (rows < 1 || size_t(rows) >= seconds_.size())
    return;
  double &mean = seconds_[size_t(rows)];
  mean = mean == 0 ? seconds : mean + (seconds - mean) * kNewDraftStepWeight;
  for (size_t more = size_t(rows) + 1; more < seconds_.size(); ++more)
    if (seconds_[more] > mean)
      seconds_[more] += (mean - seconds_[more]) * kForgetting;
}

double DraftPolicy::secondsOf(int32_t rows) const {
  // A step takes no less time than one with fewer rows.
  for (; rows > 0; --rows)
    if (seconds_[size_t(rows)] > 0)
      return seconds_[size_t(rows)];
  return 0;
}

int32_t DraftPolicy::choose(int32_t rows, int32_t most, double rate) const {
  most = std::min(most, int32_t(seconds_.size()) - 1 - rows);
  const double plain = secondsOf(rows);
  // Other texts get one token each, whatever this text gets.
  double tokens = rows, right = 1;
  double best = plain > 0 ? tokens / plain : 0;
  int32_t chosen = 0;
  for (int32_t count = 1; count <= most; ++count) {
    right *= rate;
    tokens += right;
    const double seconds = secondsOf(rows + count);
    if (seconds > 0 && tokens / seconds > best) {
      best = tokens / seconds;
      chosen = count;
    }
  }
  return chosen;
}

} // namespace moert
