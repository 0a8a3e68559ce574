#include "runtime/text/Logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moert {

Logprobs::Logprobs(std::span<const float> logits)
    : logits_(logits), most_(*std::ranges::max_element(logits)) {
  // The largest exponential is 1, so that none overflows.
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit - most_);
  logSum_ = std::log(sum);
}

std::vector<std::pair<int32_t, float>> Logprobs::top(size_t count) const {
  std::vector<int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count),
                    ids.end(), [&](int32_t a, int32_t b) {
                      float first = logits_[static_cast<size_t>(a)];
                      float second = logits_[static_cast<size_t>(b)];
                      return first != second ? first > second : a < b;
                    });
  std::vector<std::pair<int32_t, float>> best;
  for (size_t i = 0; i < count; ++i)
    best.emplace_back(ids[i], of(ids[i]));
  return best;
}

} // namespace moert
