//===- PrefillChunk.h - How many prompt tokens a step takes -----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_PREFILLCHUNK_H
#define MOE_RUNTIME_SERVE_PREFILLCHUNK_H

#include <cstdint>

namespace moert {

/// Learns from the durations of steps how many prompt tokens one may carry so
/// that it takes no longer than a few steps without any. The relation need not
/// be linear: the number is moved towards the duration that it should have, by
/// at most a factor of two per step.
class PrefillChunk {
public:
  /// Tokens of the first chunk, before anything was measured, and the least.
  static constexpr int32_t kFirst = 64, kLeast = 16;

  /// `fixed`, if above 0, replaces what is learned. No chunk is larger than
  /// `ubatch`. `factor` is how many steps without prompts a step with a chunk
  /// may take, above 1.
  PrefillChunk(int32_t fixed, int32_t ubatch, double factor);

  /// Prompt tokens for the next step. `othersWait` says whether it generates
  /// tokens for somebody, too; otherwise only the fixed limit counts.
  int32_t tokens(bool othersWait) const;

  /// Says how long a step took that evaluated `promptTokens` and generated for
  /// `generating` sequences.
  void observe(int32_t promptTokens, int32_t generating, double seconds);

private:
  int32_t fixed_, ubatch_;
  double factor_;
  double learned_;
  double plainSeconds_ = 0; ///< Of a step without prompts; 0: not known yet.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFILLCHUNK_H
