//===- Generate.h - From a prompt to text -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_GENERATE_H
#define MOE_RUNTIME_CHAT_GENERATE_H

#include "runtime/chat/ReplyStream.h"
#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"

#include <functional>
#include <span>

namespace moert {

struct GenerateStats {
  StopReason reason = StopReason::Length;
  int32_t promptTokens = 0;    ///< 0 where the prompt was not finished.
  int32_t generatedTokens = 0; ///< The end-of-generation token not included.
  int32_t decodeSteps = 0;     ///< Generated tokens that were also evaluated.
  double promptSeconds = 0, decodeSeconds = 0;

  double promptRate() const;
  double decodeRate() const; ///< Tokens per second; 0 without steps.
};

/// Rewinds the sequence to what it shares with the beginning of `prompt`, at
/// most all but the prompt's last token, whose logits are wanted. Returns how
/// many tokens of the prompt it has.
StatusOr<int32_t> keepShared(Sequence &sequence,
                             std::span<const int32_t> prompt);

/// Appends `prompt` to the sequence and generates after it, one sequence alone;
/// `sink` receives the events of `reply`, which holds the whole afterwards. The
/// sequence's cancel flag ends it with StopReason::Cancelled and ok; a failure
/// of `sink` ends it as well and is returned. The last generated token is in
/// the reply, and in the sequence only where a step followed.
StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, std::span<const int32_t> prompt,
         const SamplerParams &sampling, ReplyStream &reply,
         const std::function<Status(const ReplyEvent &)> &sink);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_GENERATE_H
