//===- Generate.h - From a prompt to text -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_GENERATE_H
#define MOE_RUNTIME_CHAT_GENERATE_H

#include "runtime/chat/Constraint.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"

#include <functional>
#include <span>

namespace moert {

struct GenerateStats {
  StopReason reason = StopReason::Length;
  int32_t promptTokens = 0;    ///< 0 if the prompt was not finished.
  int32_t generatedTokens = 0; ///< Number without the end-of-generation token.
  int32_t decodeSteps = 0;     ///< Generated tokens that were evaluated, too.
  double promptSeconds = 0, decodeSeconds = 0;

  double promptRate() const;
  double decodeRate() const; ///< Tokens per second; 0 without decode steps.
};

/// Rewinds the sequence to the longest prefix that it shares with `prompt`,
/// without the prompt's last token, whose logits must be computed. Returns the
/// number of prompt tokens that remain in the sequence.
StatusOr<int32_t> keepShared(Sequence &sequence,
                             std::span<const int32_t> prompt);

/// Appends `prompt` to the sequence and generates a reply, for this sequence
/// alone. `sink` receives the events of `reply`, which contains the whole reply
/// afterwards. If the sequence's cancel flag is set, the reply ends with
/// StopReason::Cancelled and the call succeeds; a failure of `sink` also ends
/// the reply and is returned. The reply contains the last generated token; the
/// sequence contains it only if another step followed. With a `constraint` the
/// reply is held to its grammar; fails as Constraint::allowed() does.
StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, std::span<const int32_t> prompt,
         const SamplerParams &sampling, ReplyStream &reply,
         const std::function<Status(const ReplyEvent &)> &sink,
         Constraint *constraint = nullptr);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_GENERATE_H
