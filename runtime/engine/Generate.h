//===- Generate.h - From a prompt to text -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_GENERATE_H
#define MOE_RUNTIME_ENGINE_GENERATE_H

#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Tokenizer.h"

namespace moert {

struct GenerateOptions {
  int32_t maxTokens = -1; ///< -1: until something else ends it.
  SamplerParams sampler;
  std::vector<std::string> stops; ///< Text that ends it, and is not shown.
  bool ignoreEos = false;         ///< Go on after an end-of-generation token.
  bool showControl = false; ///< Control tokens' names are part of the text.
};

enum class StopReason { Length, EndOfText, StopString, ContextFull, Cancelled };

/// "length", "eos", "stop", "context", "cancelled".
std::string_view stopReasonName(StopReason reason);

struct GenerateStats {
  StopReason reason = StopReason::Length;
  int32_t promptTokens = 0;
  int32_t generatedTokens = 0; ///< The end-of-generation token not included.
  /// The last generated token, where it is not in the sequence.
  std::optional<int32_t> pending;
  int32_t decodeSteps = 0; ///< Generated tokens that were also evaluated.
  double promptSeconds = 0, decodeSeconds = 0;

  double promptRate() const;
  double decodeRate() const; ///< Tokens per second; 0 without steps.
};

/// Appends `prompt` to the sequence and generates after it; `sink` receives
/// text as it becomes certain, whole characters only. The sequence's cancel
/// flag ends it with StopReason::Cancelled and ok; a failure of `sink` ends it
/// as well and is returned.
StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, const Tokenizer &tokenizer,
         std::span<const int32_t> prompt, const GenerateOptions &options,
         const std::function<Status(std::string_view)> &sink);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_GENERATE_H
