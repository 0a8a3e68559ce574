//===- DraftPolicy.h - How many drafted tokens to verify --------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_DRAFTPOLICY_H
#define MOE_RUNTIME_SERVE_DRAFTPOLICY_H

#include <cstdint>
#include <vector>

namespace moert {

/// How often the drafts of one text come true.
class DraftAcceptance {
public:
  /// Says whether the first token of a draft was the one that was chosen, also
  /// where the draft was not evaluated.
  void observe(bool isRight) {
    rate_ += (double(isRight) - rate_) * kNewWeight;
  }
  /// Probability that a drafted token is right if those before it are.
  double rate() const { return rate_; }

private:
  static constexpr double kFirstRate = 0.5, kNewWeight = 0.125;
  double rate_ = kFirstRate;
};

/// Learns how long decode steps of so many rows take, and compares what more
/// rows cost with the tokens that they are expected to give.
class DraftPolicy {
public:
  /// `mostRows` is Engine::batch().
  explicit DraftPolicy(int32_t mostRows) : seconds_(size_t(mostRows) + 1) {}

  /// Says how long a step took that had no prompt tokens. Measurements of other
  /// numbers of rows lose some weight, so that one that was disturbed is
  /// repeated at some time.
  void observe(int32_t rows, double seconds);

  /// Returns how many drafted tokens, at most `most`, a step of `rows` rows
  /// should carry for a text whose drafts are right at `rate`, so that it gives
  /// the most tokens per second; 0: none. Numbers of rows that were not
  /// measured yet are assumed to cost nothing more, so that they are tried.
  int32_t choose(int32_t rows, int32_t most, double rate) const;

private:
  double secondsOf(int32_t rows) const;

  /// Seconds for each number of rows; 0: not measured.
  std::vector<double> seconds_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_DRAFTPOLICY_H
