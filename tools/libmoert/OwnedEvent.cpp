#include "tools/libmoert/OwnedEvent.h"

#include "tools/libmoert/Handles.h"

namespace moert::capi {

namespace {
static_assert(int(StopReason::EndOfText) == MOERT_STOP_END &&
              int(StopReason::StopString) == MOERT_STOP_STRING &&
              int(StopReason::ContextFull) == MOERT_STOP_CONTEXT &&
              int(StopReason::Cancelled) == MOERT_STOP_CANCELLED);

moert_event_kind kindOf(Delta::Kind kind) {
  switch (kind) {
  case Delta::Kind::Text:
    return MOERT_EVENT_TEXT;
  case Delta::Kind::Reasoning:
    return MOERT_EVENT_REASONING;
  case Delta::Kind::CallBegin:
    return MOERT_EVENT_CALL;
  case Delta::Kind::CallArguments:
    return MOERT_EVENT_CALL_ARGUMENTS;
  case Delta::Kind::CallEnd:
    return MOERT_EVENT_CALL_END;
  case Delta::Kind::Progress:
    break;
  }
  return MOERT_EVENT_TEXT;
}
} // namespace

OwnedEvent::OwnedEvent(const Delta &delta, const Choice &choice)
    : text_(delta.text), logprobs_(delta.logprobs) {
  event_.kind = kindOf(delta.kind);
  event_.call = int32_t(delta.call);
  event_.stop = -1;
  if (delta.kind == Delta::Kind::CallBegin) {
    text_ = choice.calls[delta.call].name;
    id_ = choice.calls[delta.call].id;
  }
}

OwnedEvent::OwnedEvent(const Choice &choice, const Status &failure) {
  event_.kind = MOERT_EVENT_END;
  event_.reason = int32_t(choice.reason);
  event_.stop = -1;
  Failure told;
  remember(told, failure);
  event_.status = toC(failure.code());
  error_ = std::move(told.error);
  remedy_ = std::move(told.remedy);
}

void OwnedEvent::setResults(int32_t stop, std::vector<int32_t> tokens,
                            const GenerationStats &stats,
                            std::vector<float> embedding) {
  event_.stop = stop;
  tokens_ = std::move(tokens);
  embedding_ = std::move(embedding);
  stats_ = {stats.promptTokens,  stats.cachedTokens,   stats.generatedTokens,
            stats.draftedTokens, stats.acceptedTokens, stats.queueSeconds,
            stats.promptSeconds, stats.decodeSeconds};
  event_.stats = &stats_;
}

const moert_event &OwnedEvent::view() {
  event_.text = text_.c_str();
  event_.bytes = text_.size();
  if (event_.kind == MOERT_EVENT_CALL)
    event_.id = id_.c_str();
  views_.clear();
  tops_.clear();
  for (const TokenLogprob &each : logprobs_) {
    std::vector<moert_alternative> &top = tops_.emplace_back();
    for (auto [token, logprob] : each.top)
      top.push_back({token, logprob});
    views_.push_back({{each.token, each.logprob}, top.data(), top.size()});
  }
  event_.logprobs = views_.empty() ? nullptr : views_.data();
  event_.logprob_count = views_.size();
  if (event_.kind != MOERT_EVENT_END)
    return event_;
  event_.error = error_.c_str();
  event_.remedy = remedy_.c_str();
  event_.tokens = tokens_.data();
  event_.token_count = tokens_.size();
  event_.embedding = embedding_.empty() ? nullptr : embedding_.data();
  event_.embedding_count = embedding_.size();
  if (event_.stats)
    event_.stats = &stats_;
  return event_;
}

} // namespace moert::capi
