#include "runtime/chat/ReplyStream.h"

namespace moert {

std::string_view stopReasonName(StopReason reason) {
  constexpr std::string_view names[] = {"length", "eos", "stop", "context",
                                        "cancelled"};
  return names[static_cast<size_t>(reason)];
}

ReplyStream::ReplyStream(const Tokenizer &tokenizer, StreamDecoder decoder,
                         std::string_view prompt, ReplyOptions options)
    : tokenizer_(&tokenizer), decoder_(std::move(decoder)),
      options_(std::move(options)) {
  if (options_.speech)
    splitter_.emplace(options_.speech, prompt, options_.findsCalls);
}

StatusOr<ReplyStream> ReplyStream::create(const Tokenizer &tokenizer,
                                          std::string_view prompt,
                                          ReplyOptions options) {
  MOE_ASSIGN_OR_RETURN(StreamDecoder decoder,
                       StreamDecoder::create(tokenizer, options.stops,
                                             options.speech != nullptr));
  return ReplyStream(tokenizer, std::move(decoder), prompt, std::move(options));
}

void ReplyStream::add(std::vector<ReplySplitter::Part> parts,
                      std::vector<ReplyEvent> &events) {
  using Kind = ReplyEvent::Kind;
  for (ReplySplitter::Part &part : parts) {
    std::string shown = withoutControls(part.text);
    (part.isReasoning ? reply_.reasoning : reply_.text) += shown;
    if (part.isReasoning || !options_.findsCalls)
      part.text = std::move(shown);
    if (!part.text.empty())
      events.push_back({part.isReasoning ? Kind::Reasoning : Kind::Text,
                        std::move(part.text)});
  }
}

void ReplyStream::add(std::string text, std::vector<ReplyEvent> &events) {
  if (text.empty())
    return;
  reply_.raw += namedControls(text);
  if (splitter_)
    add(splitter_->push(text), events);
  else
    add({{false, std::move(text)}}, events);
}

void ReplyStream::end(StopReason reason, std::vector<ReplyEvent> &events) {
  add(decoder_.finish(), events);
  if (splitter_)
    add(splitter_->finish(), events);
  reply_.reason = reason;
  reply_.stop = decoder_.stoppedBy();
  events.push_back({ReplyEvent::Kind::End, {}, reason});
}

std::vector<ReplyEvent> ReplyStream::push(int32_t token) {
  std::vector<ReplyEvent> events;
  if (hasEnded())
    return events;
  if (!options_.ignoreEos && tokenizer_->isEndOfGeneration(token)) {
    end(StopReason::EndOfText, events);
    return events;
  }
  reply_.tokens.push_back(token);
  add(decoder_.push(token), events);
  if (decoder_.stopped())
    end(StopReason::StopString, events);
  else if (options_.maxTokens >= 0 &&
           reply_.tokens.size() >= size_t(options_.maxTokens))
    end(StopReason::Length, events);
  return events;
}

std::vector<ReplyEvent> ReplyStream::finish(StopReason reason) {
  std::vector<ReplyEvent> events;
  if (!hasEnded())
    end(reason, events);
  return events;
}

} // namespace moert
