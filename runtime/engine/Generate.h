//===- Generate.h - From a prompt to text -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_GENERATE_H
#define MOE_RUNTIME_ENGINE_GENERATE_H

#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Tokenizer.h"

namespace moert {

struct GenerateOptions {
  int32_t maxTokens = -1; ///< Limit on generated tokens; -1: no limit.
  SamplerParams sampler;
  /// Text that ends generation and is not shown.
  std::vector<std::string> stops;
  bool ignoreEos = false; ///< Continue after an end-of-generation token.
  /// Include the names of control tokens in the text.
  bool showControl = false;
};

enum class StopReason { Length, EndOfText, StopString, ContextFull, Cancelled };

/// Returns "length", "eos", "stop", "context" or "cancelled".
std::string_view stopReasonName(StopReason reason);

struct GenerateStats {
  StopReason reason = StopReason::Length;
  int32_t promptTokens = 0;
  int32_t generatedTokens = 0; ///< Without the end-of-generation token.
  /// The last generated token, if it was not appended to the sequence.
  std::optional<int32_t> pending;
  int32_t decodeSteps = 0; ///< Generated tokens that were also evaluated.
  double promptSeconds = 0, decodeSeconds = 0;

  double promptRate() const;
  double decodeRate() const; ///< Tokens per second; 0 without steps.
};

/// Appends `prompt` to the sequence and generates tokens after it. `sink`
/// receives text in whole characters, as soon as no stop string can begin in
/// it. The sequence's cancel flag ends generation with StopReason::Cancelled
/// and an ok status; an error of `sink` also ends it and is returned.
StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, const Tokenizer &tokenizer,
         std::span<const int32_t> prompt, const GenerateOptions &options,
         const std::function<Status(std::string_view)> &sink);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_GENERATE_H
