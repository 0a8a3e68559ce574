//===- Sampler.h - Samples the next token -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_SAMPLER_H
#define MOE_RUNTIME_TEXT_SAMPLER_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace moert {

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014): a counter with increment 0x9E3779B97F4A7C15, hashed.
/// Passes BigCrush, has period 2^64 and gives the same numbers everywhere.
class SplitMix64 {
public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  /// Uniform in [0, 1): the upper 53 bits, as many as a double holds.
  double nextUnit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Returns the counter. A generator that starts with it continues the
  /// sequence of this one.
  uint64_t state() const { return state_; }

private:
  uint64_t state_;
};

/// Sampling parameters. The steps apply in the order of the fields, each to the
/// tokens that the previous steps kept. Tokens that are not allowed
/// (Sampler::sample) are dropped before top-k.
struct SamplerParams {
  /// Added to the logits of these tokens; finite. Ids outside the vocabulary
  /// are ignored.
  std::map<int32_t, float> logitBias = {};
  /// Logits of tokens among the last `repetitionWindow` are divided by this
  /// if positive and multiplied if negative (Keskar et al., "CTRL", 2019).
  /// Above 0; 1 is off.
  float repetitionPenalty = 1.0f;
  /// Number of tokens; 0 turns the penalty off.
  uint32_t repetitionWindow = 64;
  /// Subtracted from the logit of every token that was generated: once, and
  /// once for each time that it was. Finite; 0 is off, below 0 repeats more.
  float presencePenalty = 0, frequencyPenalty = 0;
  /// Number of most likely tokens to keep; 0 keeps all.
  uint32_t topK = 40;
  /// Keep the most likely until their probabilities sum to this; in (0, 1],
  /// 1 keeps all. Probabilities are those at temperature 1 among what top-k
  /// left.
  float topP = 0.95f;
  /// Drop tokens less likely than this fraction of the most likely one; in [0,
  /// 1], 0 keeps all.
  float minP = 0.05f;
  /// Divides the logits before the draw. 0 is greedy: the most likely token
  /// after bias and penalties, the lowest id among equals, without a random
  /// number.
  float temperature = 0.8f;
  uint64_t seed = 0;
};

class Sampler {
public:
  /// Fails with Usage, naming the parameter, its value and its range.
  static StatusOr<Sampler> create(const SamplerParams &params);

  /// Samples from `logits`, one per token of the vocabulary. Minus infinity
  /// excludes a token. NaN, plus infinity or an empty choice is an Internal
  /// error that names the token: the model's output is damaged. Does not record
  /// the choice: call accept().
  /// If `allowed` is not empty, only tokens whose bit is set are chosen: bit
  /// id % 64 of word id / 64, as Matcher::allowed() returns them. If none of
  /// these has a logit, fails with Unsupported.
  StatusOr<int32_t> sample(std::span<const float> logits,
                           std::span<const uint64_t> allowed = {});

  /// Records a generated token for all penalties.
  void accept(int32_t id);
  /// Records a token of the prompt, for the repetition penalty alone.
  void acceptPrompt(int32_t id);

  /// The state of the sampler. Another sampler with the same parameters and
  /// this state makes the same choices.
  struct State {
    uint64_t random;             ///< The counter of SplitMix64.
    std::vector<int32_t> recent; ///< Tokens in the order of accept().
    /// How often tokens were generated, if a penalty needs it.
    std::map<int32_t, uint32_t> generated = {};
  };
  State state() const;
  void resume(const State &state);

private:
  struct Candidate {
    float logit;
    int32_t id;
  };

  explicit Sampler(const SamplerParams &params);

  bool changesLogits() const;
  /// Copies the logits to changed_ and applies bias and penalties.
  void change(std::span<const float> logits);
  void applyRepetitionPenalty();
  void keepTopK(std::span<const float> logits);
  void keepTopP(float best);
  void keepMinP(float best);
  int32_t draw(float best);
  /// Sorts so that the first `count` candidates are the best ones, in order.
  void sortFirst(size_t count);

  SamplerParams params_;
  SplitMix64 random_;
  std::vector<int32_t> recent_; ///< A ring buffer of the last tokens.
  size_t nextRecent_ = 0;
  std::map<int32_t, uint32_t> generated_;
  std::vector<float> changed_;
  std::vector<Candidate> candidates_;
  size_t sorted_ = 0; ///< Number of leading candidates in final order.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_SAMPLER_H
