// Runs the layer for multi-token prediction.
#include "runtime/base/Finite.h"
#include "runtime/base/Text.h"
#include "runtime/engine/Engine.h"

#include <algorithm>

namespace moert {

Status Engine::checkDraft(const Sequence &sequence, int32_t position,
                          std::span<const int32_t> tokens,
                          std::span<const float> hidden) const {
  if (!draft_)
    return Status(StatusCode::Unsupported,
                  "this plan has no layer for multi-token prediction; compile "
                  "it with --mtp, from a model file that has one");
  if (sequence.engine_ != this)
    return Status(StatusCode::Usage, "the sequence belongs to another engine");
  if (sequence.options_.sharePrefixes)
    return Status(StatusCode::Usage,
                  "a sequence that shares prefixes cannot draft: what the "
                  "layer caches for a token depends on the next one");
  if (position < 0 ||
      int64_t(position) + int64_t(tokens.size()) > sequence.position())
    return Status(StatusCode::Usage,
                  fmt::format("{} after position {} need hidden states of "
                              "tokens that the sequence of {} does not have",
                              counted(tokens.size(), "token"), position,
                              sequence.position()));
  if (hidden.size() != tokens.size() * size_t(hiddenSize_))
    return Status(StatusCode::Usage,
                  fmt::format("hidden states have {} elements, expected {} for "
                              "each of {}",
                              hidden.size(), hiddenSize_,
                              counted(tokens.size(), "token")));
  return checkTokens(tokens);
}

Status Engine::draft(Sequence &sequence, int32_t position,
                     std::span<const int32_t> tokens,
                     std::span<const float> hidden, const LogitsSink &sink) {
  MOE_RETURN_IF_ERROR(checkDraft(sequence, position, tokens, hidden));
  const auto most =
      size_t(std::min(draft_->maxTokens, draftLogits_->maxTokens));
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), most);
    rows_.assign(1, {0, int32_t(count), position, sequence.pages_.data(),
                     std::max(0, sequence.state_)});
    const moek::Step step{int32_t(count), position, rows_.data(), 1};
    MOE_RETURN_IF_ERROR(
        devices_->setHidden(*draft_, hidden.first(count * hiddenSize_)));
    MOE_ASSIGN_OR_RETURN(std::span<const float> drafted,
                         runPhase(*draft_, std::as_bytes(tokens.first(count)),
                                  step, sequence.cancel_));
    // The next phase overwrites what this one gave.
    hidden_.assign(drafted.begin(), drafted.end());
    MOE_ASSIGN_OR_RETURN(std::span<const float> logits,
                         runPhase(*draftLogits_,
                                  std::as_bytes(std::span(hidden_)),
                                  {int32_t(count), 0}, sequence.cancel_));
    for (size_t i = 0; i < count; ++i) {
      std::span<const float> row = logits.subspan(i * logitsSize_, logitsSize_);
      if (!allFinite(row))
        return Status(StatusCode::InvalidFile,
                      fmt::format("the layer for multi-token prediction gives "
                                  "no finite logits after position {}",
                                  position + int32_t(i) + 1));
      MOE_RETURN_IF_ERROR(sink(0, position + int32_t(i) + 1, row));
    }
    position += int32_t(count);
    tokens = tokens.subspan(count);
    hidden = hidden.subspan(count * size_t(hiddenSize_));
  }
  return Status::ok();
}

} // namespace moert
