#include "runtime/serve/LiveGeneration.h"

#include "runtime/base/Text.h"
#include "runtime/text/Logprobs.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

namespace {
double secondsBetween(LiveGeneration::Clock::time_point from,
                      LiveGeneration::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Status outside(std::string_view what, int32_t token, int32_t vocab) {
  return Status(StatusCode::Usage,
                fmt::format("{} {} is outside the vocabulary of {}", what,
                            token, counted(size_t(vocab), "token")));
}

Status checkTokens(const GenerationRequest &request, int32_t vocab) {
  if (request.prompt.empty())
    return Status(StatusCode::Usage,
                  "the prompt has no tokens; it needs at least one");
  auto isOutside = [&](int32_t token) { return token < 0 || token >= vocab; };
  auto bad = std::ranges::find_if(request.prompt, isOutside);
  if (bad != request.prompt.end())
    return outside(fmt::format("the prompt's token at index {},",
                               bad - request.prompt.begin()),
                   *bad, vocab);
  for (auto [token, bias] : request.sampling.logitBias)
    if (isOutside(token))
      return outside("the logit bias's token", token, vocab);
  if (request.topLogprobs > vocab)
    return Status(StatusCode::Usage,
                  fmt::format("{} alternatives are wanted of each token; the "
                              "vocabulary has {} tokens",
                              request.topLogprobs, vocab));
  return Status::ok();
}
} // namespace

LiveGeneration::LiveGeneration(GenerationRequest request, GenerationSink sink,
                               Sampler sampler, ReplyStream reply)
    : request_(std::move(request)), sink_(std::move(sink)),
      sampler_(std::move(sampler)), reply_(std::move(reply)),
      text_(std::move(request_.prompt)) {
  stats_.promptTokens = int32_t(text_.size());
  for (int32_t token : text_)
    sampler_.acceptPrompt(token);
}

StatusOr<std::unique_ptr<LiveGeneration>>
LiveGeneration::create(GenerationRequest request, GenerationSink sink,
                       const Tokenizer &tokenizer, int32_t vocab, int32_t room,
                       const VocabularySource &vocabulary) {
  MOE_RETURN_IF_ERROR(checkTokens(request, vocab));
  MOE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(request.sampling));
  MOE_ASSIGN_OR_RETURN(
      ReplyStream reply,
      ReplyStream::create(tokenizer, request.promptText, request.reply));
  std::unique_ptr<LiveGeneration> made(
      new LiveGeneration(std::move(request), std::move(sink),
                         std::move(sampler), std::move(reply)));
  made->room_ = room;
  const GenerationRequest &kept = made->request_;
  if (kept.grammar)
    made->constraint_.emplace(kept.grammar, vocabulary(),
                              kept.reply.splitReasoning, kept.promptText);
  return made;
}

void LiveGeneration::expectTokens(int32_t assumed) {
  int64_t more = assumed;
  if (request_.reply.maxTokens >= 0)
    more = std::max(0, request_.reply.maxTokens - stats_.generatedTokens);
  expected_ = int32_t(std::min(int64_t(room_), int64_t(text_.size()) + more));
}

int32_t LiveGeneration::begin() {
  if (begun_)
    return 0;
  begun_ = Clock::now();
  stats_.queueSeconds = secondsBetween(submitted_, *begun_);
  stats_.cachedTokens = position();
  return stats_.cachedTokens;
}

StatusOr<int32_t> LiveGeneration::choose(std::span<const float> logits) {
  std::span<const uint64_t> allowed;
  if (constraint_) {
    MOE_ASSIGN_OR_RETURN(allowed, constraint_->allowed());
  }
  MOE_ASSIGN_OR_RETURN(int32_t token, sampler_.sample(logits, allowed));
  if (constraint_)
    MOE_RETURN_IF_ERROR(constraint_->accept(token));
  sampler_.accept(token);
  return token;
}

void LiveGeneration::note(std::span<const float> logits, int32_t token) {
  if (request_.topLogprobs < 0)
    return;
  Logprobs logprobs(logits);
  logprobs_.push_back(
      {token, logprobs.of(token), logprobs.top(size_t(request_.topLogprobs))});
}

void LiveGeneration::takeLogits(std::span<const float> logits) {
  if (hasEnded())
    return;
  if (!firstLogits_) {
    firstLogits_ = Clock::now();
    firstTokenSeconds_ = secondsBetween(submitted_, *firstLogits_);
    stats_.promptSeconds = secondsBetween(*begun_, *firstLogits_);
  }
  if (!reply_.takesMore())
    return finish(StopReason::Length);
  StatusOr<int32_t> token = choose(logits);
  if (!token)
    return fail(token.status());
  const size_t before = reply_.reply().tokens.size();
  std::vector<ReplyEvent> events = reply_.push(*token);
  stats_.generatedTokens = int32_t(reply_.reply().tokens.size());
  if (reply_.reply().tokens.size() > before)
    note(logits, *token);
  auto append = [&](std::vector<ReplyEvent> more) {
    std::ranges::move(more, std::back_inserter(events));
  };
  if (constraint_ && constraint_->hasEnded())
    append(reply_.finish(StopReason::EndOfText));
  if (text_.size() >= size_t(room_))
    append(reply_.finish(StopReason::ContextFull));
  if (reply_.hasEnded())
    return end(std::move(events), Status::ok());
  chosen_ = *token;
  if (!events.empty())
    sink_({std::move(events), std::exchange(logprobs_, {})});
}

void LiveGeneration::settle() {
  if (chosen_)
    text_.push_back(*std::exchange(chosen_, std::nullopt));
}

void LiveGeneration::finish(StopReason reason) {
  if (!hasEnded())
    end(reply_.finish(reason), Status::ok());
}

void LiveGeneration::fail(Status status) {
  if (!hasEnded())
    end(reply_.finish(StopReason::Cancelled), std::move(status));
}

void LiveGeneration::end(std::vector<ReplyEvent> events, Status status) {
  ending_ = status.isOk() ? Ending::Finished : Ending::Failed;
  const Clock::time_point now = Clock::now();
  if (firstLogits_)
    stats_.decodeSeconds = secondsBetween(*firstLogits_, now);
  else if (begun_)
    stats_.promptSeconds = secondsBetween(*begun_, now);
  else
    stats_.queueSeconds = secondsBetween(submitted_, now);
  GenerationEvent last{std::move(events), std::exchange(logprobs_, {})};
  last.isEnd = true;
  last.reply = reply_.reply();
  last.stats = stats_;
  last.status = std::move(status);
  GenerationSink sink = std::exchange(sink_, nullptr);
  sink(std::move(last));
}

GenerationRow LiveGeneration::row() const {
  using State = GenerationRow::State;
  GenerationRow row;
  row.id = id;
  row.client = client();
  row.state = !sequence    ? State::Waiting
              : isPrompt() ? State::Prompt
                           : State::Decoding;
  row.priority = priority();
  row.promptTokens = stats_.promptTokens;
  row.cachedTokens = stats_.cachedTokens;
  row.position = position();
  row.generatedTokens = stats_.generatedTokens;
  row.seconds = secondsBetween(submitted_, Clock::now());
  return row;
}

} // namespace moert
