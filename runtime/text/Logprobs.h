//===- Logprobs.h - Probabilities of tokens ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_LOGPROBS_H
#define MOE_RUNTIME_TEXT_LOGPROBS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moert {

/// Natural logarithms of the probabilities that logits stand for: of their
/// softmax, without a sampler's steps. Minus infinity is probability 0.
class Logprobs {
public:
  /// `logits`, one per token of the vocabulary, must hold no NaN, at least one
  /// finite one, and must outlive this.
  explicit Logprobs(std::span<const float> logits);

  float of(int32_t id) const {
    // Subtracted in this order, large logits lose nothing.
    return static_cast<float>(logits_[static_cast<size_t>(id)] - most_ -
                              logSum_);
  }
  /// The `count` most likely tokens, or all, most likely first; the lower id
  /// among equals.
  std::vector<std::pair<int32_t, float>> top(size_t count) const;

private:
  std::span<const float> logits_;
  double most_;
  /// Logarithm of the sum of exp(logit - most_) over all logits.
  double logSum_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_LOGPROBS_H
