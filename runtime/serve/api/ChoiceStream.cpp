#include "runtime/serve/api/ChoiceStream.h"

#include <algorithm>
#include <utility>

namespace moert {

ChoiceStream::ChoiceStream(const Tokenizer &tokenizer, const ToolUse &use,
                           Choice &choice)
    : tokenizer_(tokenizer), use_(use), choice_(choice) {
  if (use.formats)
    parser_.emplace(*use.formats, use.tools);
}

void ChoiceStream::addText(std::string_view text, const Emit &emit) {
  if (text.empty())
    return;
  std::vector<TokenLogprob> logprobs = std::exchange(logprobs_, {});
  if (std::exchange(followsReasoning_, false))
    dropMarks(logprobs, text.size());
  choice_.text += text;
  choice_.logprobs.insert(choice_.logprobs.end(), logprobs.begin(),
                          logprobs.end());
  emit({.kind = Delta::Kind::Text,
        .text = std::string(text),
        .logprobs = std::move(logprobs),
        .tokens = std::exchange(tokens_, {})});
}

/// Drops those tokens before the end of a text of so many bytes that are no
/// part of the text: the marks between reasoning and answer.
void ChoiceStream::dropMarks(std::vector<TokenLogprob> &logprobs,
                             size_t textBytes) const {
  size_t kept = logprobs.size(), bytes = 0;
  while (kept > 0 && bytes < textBytes)
    bytes += tokenizer_.tokenBytes(logprobs[--kept].token).size();
  logprobs.erase(logprobs.begin(), logprobs.begin() + ptrdiff_t(kept));
}

void ChoiceStream::addToolEvents(std::vector<ToolEvent> events,
                                 const Emit &emit) {
  std::vector<ToolCall> &calls = choice_.calls;
  for (ToolEvent &event : events) {
    if (event.kind != ToolEvent::Kind::Text)
      logprobs_.clear();
    switch (event.kind) {
    case ToolEvent::Kind::Text:
      addText(event.text, emit);
      break;
    case ToolEvent::Kind::Begin:
      calls.push_back(
          {event.id.empty() ? use_.newCallId() : event.id, event.text, ""});
      emit({.kind = Delta::Kind::CallBegin, .call = calls.size() - 1});
      break;
    case ToolEvent::Kind::Arguments:
      calls.back().arguments += event.text;
      emit({.kind = Delta::Kind::CallArguments,
            .text = std::move(event.text),
            .call = calls.size() - 1});
      break;
    case ToolEvent::Kind::End:
      emit({.kind = Delta::Kind::CallEnd, .call = calls.size() - 1});
      break;
    case ToolEvent::Kind::Error:
      isMalformed_ = hasEnded_ = true;
      failure_ = Status(StatusCode::Unsupported, std::move(event.text));
      break;
    }
  }
}

void ChoiceStream::receive(GenerationEvent &event, const Emit &emit) {
  if (hasEnded_)
    return;
  choice_.stats = event.stats;
  if (event.promptDone > 0)
    emit({.kind = Delta::Kind::Progress, .promptDone = event.promptDone});
  if (!event.promptLogprobs.empty())
    choice_.promptLogprobs = std::move(event.promptLogprobs);
  bool hasText = false, hasReasoning = false;
  logprobs_.insert(logprobs_.end(), event.logprobs.begin(),
                   event.logprobs.end());
  tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
  for (ReplyEvent &piece : event.events) {
    if (piece.kind == ReplyEvent::Kind::Text) {
      hasText = true;
      if (parser_)
        addToolEvents(parser_->push(piece.text), emit);
      else
        addText(piece.text, emit);
    } else if (piece.kind == ReplyEvent::Kind::Reasoning) {
      hasReasoning = followsReasoning_ = true;
      choice_.reasoning += piece.text;
      emit({.kind = Delta::Kind::Reasoning, .text = std::move(piece.text)});
    }
  }
  // Only the probabilities of the answer are given.
  if (hasReasoning && !hasText)
    logprobs_.clear();
  if (event.isEnd)
    end(event, emit);
}

void ChoiceStream::end(GenerationEvent &event, const Emit &emit) {
  hasEnded_ = true;
  choice_.reason = event.reply.reason.value_or(StopReason::Cancelled);
  if (!event.status || choice_.reason == StopReason::Cancelled) {
    if (isMalformed_)
      return;
    failure_ = event.status;
    if (failure_)
      failure_ = Status(StatusCode::Cancelled, "the generation was cancelled");
    return;
  }
  const bool isFull = choice_.reason == StopReason::Length ||
                      choice_.reason == StopReason::ContextFull;
  bool isCutCall = false;
  if (parser_)
    addToolEvents(parser_->finish(), emit);
  // A call that was cut off is no fault: the reply has what there is of it.
  if (isMalformed_ && (isFull || choice_.reason == StopReason::StopString)) {
    isMalformed_ = false;
    isCutCall = true;
    failure_ = {};
  }
  if (isMalformed_)
    return;
  choice_.finish = isFull ? Choice::Finish::Length
                   : choice_.calls.empty() || isCutCall
                       ? Choice::Finish::Stop
                       : Choice::Finish::ToolCalls;
  choice_.tokens = std::move(event.reply.tokens);
  if (choice_.reasoning.empty())
    return;
  auto tokens =
      tokenizer_.encode(choice_.reasoning, {.addBos = false, .addEos = false});
  choice_.reasoningTokens =
      tokens ? std::min(int32_t(tokens->size()), choice_.stats.generatedTokens)
             : 0;
}

} // namespace moert
