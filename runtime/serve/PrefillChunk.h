//===- PrefillChunk.h - How many prompt tokens a step takes -----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_PREFILLCHUNK_H
#define MOE_RUNTIME_SERVE_PREFILLCHUNK_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace moert {

/// Learns from the durations of steps how many prompt tokens one may carry so
/// that it takes no longer than a few steps without any. The relation need not
/// be linear: the number is moved towards the duration that it should have, by
/// at most a factor of two per step. A token costs the more the more tokens are
/// before it, so that there is a number for each range of positions.
class PrefillChunk {
public:
  /// Tokens of the first chunk, before anything was measured, and the least.
  static constexpr int32_t kFirst = 64, kLeast = 16;
  /// Seconds by which prompts make a step longer at most, unless a step without
  /// them takes as long.
  static constexpr double kMostSeconds = 0.5;

  /// `fixed`, if above 0, replaces what is learned. No chunk is larger than
  /// `ubatch`. `factor` is how many steps without prompts a step with a chunk
  /// may take, above 1.
  PrefillChunk(int32_t fixed, int32_t ubatch, double factor);

  /// Prompt tokens for the next step, of prompts that go on at `position` or
  /// before. `othersWait` says whether somebody waits for generated tokens;
  /// otherwise only the fixed limit counts.
  int32_t tokens(bool othersWait, int32_t position) const;

  /// Says how long a step took that evaluated `promptTokens`, whose prompts
  /// went on at `position` or before, and generated for `generating` sequences.
  void observe(int32_t promptTokens, int32_t position, int32_t generating,
               double seconds);

private:
  /// Ranges of positions: below kFirstRange, and from each of its doubles on.
  static constexpr int32_t kFirstRange = 1024;
  static constexpr size_t kRanges = 12;
  /// The learned number of tokens of a range, and the position.
  struct Learned {
    double tokens = 0; ///< 0: nothing was learned.
    int32_t position = 0;

    double at(int32_t where) const;
  };
  static size_t rangeOf(int32_t position);
  double learned(int32_t position) const;

  int32_t fixed_, ubatch_;
  double factor_;
  std::array<Learned, kRanges> learned_{};
  /// Time of a step without prompts; 0: not known yet.
  double plainSeconds_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFILLCHUNK_H
