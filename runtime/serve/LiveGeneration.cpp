#include "runtime/serve/LiveGeneration.h"

#include "kernels/KvCache.h"
#include "runtime/base/Text.h"
#include "runtime/text/Logprobs.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

namespace {
/// Steps of work on the mask after a drafted token: about half a millisecond.
constexpr uint64_t kDraftMaskSteps = 20'000;

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
  if (request_.embed) {
    pooled_.emplace(*request_.embed);
    text_.push_back(text_.back());
    return;
  }
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
    made->constraint_.emplace(kept.grammar, vocabulary());
  return made;
}

void LiveGeneration::expectTokens(int32_t assumed) {
  int64_t more = assumed;
  if (embeds() || request_.classifies)
    more = 0;
  else if (request_.reply.maxTokens >= 0)
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

bool LiveGeneration::prepareMask(uint64_t steps) {
  if (!constraint_ || hasEnded())
    return true;
  StatusOr<bool> isReady = constraint_->prepare(steps);
  if (isReady)
    return *isReady;
  fail(isReady.status());
  return false;
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

void LiveGeneration::notePrompt(int32_t position,
                                std::span<const float> logits) {
  Logprobs logprobs(logits);
  const int32_t token = text_[size_t(position) + 1];
  const size_t top = size_t(std::max(0, request_.topLogprobs));
  // The prompt begins again if its pages were taken away meanwhile.
  promptLogprobs_.resize(size_t(position));
  promptLogprobs_.push_back({token, logprobs.of(token), logprobs.top(top)});
}

std::span<const int32_t> LiveGeneration::draft(int32_t most) {
  const int32_t position = this->position();
  int64_t room = std::min(int64_t(most), int64_t(room_) - position - 1);
  room = std::min(room, moek::kKvPage - 1 - position % moek::kKvPage);
  if (request_.reply.maxTokens >= 0)
    room = std::min(room, int64_t(request_.reply.maxTokens) -
                              stats_.generatedTokens - 1);
  drafted_ = {text_.back()};
  std::vector<int32_t> found =
      lookup_.draft(text_, int32_t(std::max<int64_t>(room, 0)));
  drafted_.insert(drafted_.end(), found.begin(), found.end());
  return std::span(drafted_).subspan(1);
}

std::span<const int32_t> LiveGeneration::withDraft(int32_t count) {
  verified_ = size_t(count);
  stats_.draftedTokens += count;
  return std::span(drafted_).first(size_t(count) + 1);
}

bool LiveGeneration::isOutOfTime() const {
  return request_.mostDecodeTime &&
         Clock::now() - *firstLogits_ >= *request_.mostDecodeTime &&
         reply_.reply().raw.find('\n') != std::string::npos;
}

void LiveGeneration::compareWithDraft(int32_t token) {
  const size_t index = chosen_.size() + 1;
  if (index >= drafted_.size())
    return;
  const bool isRight = drafted_[index] == token;
  // Tokens after the verified ones tell nothing, because the text before them
  // is not that of the draft.
  if (index <= std::max<size_t>(verified_, 1))
    acceptance_.observe(isRight);
  if (index <= verified_ && isRight)
    ++stats_.acceptedTokens;
}

void LiveGeneration::takeLogits(int32_t position,
                                std::span<const float> logits) {
  if (hasEnded())
    return;
  if (position + 1 < stats_.promptTokens) {
    if (request_.promptLogprobs && stats_.generatedTokens == 0)
      notePrompt(position, logits);
    return;
  }
  if (request_.classifies) {
    outputs_.assign(logits.begin(), logits.end());
    return finish(StopReason::EndOfText);
  }
  const size_t index = chosen_.size();
  if (size_t(position) + 1 != text_.size() + index ||
      (index > 0 && drafted_[index] != chosen_.back()))
    return;
  // After a drafted token, a mask that is not ready at once is left to the next
  // step.
  if (index > 0 && !prepareMask(kDraftMaskSteps))
    return;
  if (!firstLogits_) {
    firstLogits_ = Clock::now();
    firstTokenSeconds_ = secondsBetween(submitted_, *firstLogits_);
    stats_.promptSeconds = secondsBetween(*begun_, *firstLogits_);
    if (request_.promptLogprobs)
      sink_({.events = {},
             .logprobs = {},
             .promptLogprobs = std::exchange(promptLogprobs_, {})});
  }
  if (!reply_.takesMore())
    return finish(StopReason::Length);
  StatusOr<int32_t> token = choose(logits);
  if (!token)
    return fail(token.status());
  const size_t before = reply_.reply().tokens.size();
  std::vector<ReplyEvent> events = reply_.push(*token);
  stats_.generatedTokens = int32_t(reply_.reply().tokens.size());
  if (reply_.reply().tokens.size() > before) {
    unsent_.push_back(*token);
    note(logits, *token);
  }
  compareWithDraft(*token);
  auto append = [&](std::vector<ReplyEvent> more) {
    std::ranges::move(more, std::back_inserter(events));
  };
  if (constraint_ && constraint_->hasEnded())
    append(reply_.finish(StopReason::EndOfText));
  if (text_.size() + index >= size_t(room_))
    append(reply_.finish(StopReason::ContextFull));
  if (isOutOfTime())
    append(reply_.finish(StopReason::Length));
  if (reply_.hasEnded())
    return end(std::move(events), Status::ok());
  chosen_.push_back(*token);
  if (!events.empty())
    sink_({.events = std::move(events),
           .logprobs = std::exchange(logprobs_, {}),
           .tokens = std::exchange(unsent_, {}),
           .stats = statsNow()});
}

void LiveGeneration::settle() {
  text_.insert(text_.end(), chosen_.begin(), chosen_.end());
  chosen_.clear();
  drafted_.clear();
  if (std::exchange(verified_, 0) == 0 || !sequence)
    return;
  // After the end, the sequence is kept with the tokens that are in the text;
  // else the last one is still to be evaluated.
  const auto most = int32_t(text_.size()) - int32_t(!hasEnded());
  if (sequence->position() > most)
    if (Status status = sequence->rewind(most); !status.isOk())
      fail(std::move(status));
}

void LiveGeneration::reportProgress() {
  if (!request_.reportsProgress || hasEnded() || firstLogits_ || !sequence)
    return;
  sink_({.events = {},
         .logprobs = {},
         .stats = statsNow(),
         .promptDone = position()});
}

GenerationStats LiveGeneration::statsNow() const {
  const Clock::time_point now = Clock::now();
  GenerationStats stats = stats_;
  if (firstLogits_)
    stats.decodeSeconds = secondsBetween(*firstLogits_, now);
  else if (begun_)
    stats.promptSeconds = secondsBetween(*begun_, now);
  else
    stats.queueSeconds = secondsBetween(submitted_, now);
  return stats;
}

void LiveGeneration::takeHidden(int32_t position,
                                std::span<const float> state) {
  if (hasEnded())
    return;
  // The prompt begins again if its pages were taken away meanwhile.
  if (position == 0)
    pooled_->clear();
  pooled_->add(state);
  if (position + 1 == stats_.promptTokens)
    finish(StopReason::EndOfText);
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
  stats_ = statsNow();
  GenerationEvent last{.events = std::move(events),
                       .logprobs = std::exchange(logprobs_, {}),
                       .tokens = std::exchange(unsent_, {})};
  last.isEnd = true;
  last.reply = reply_.reply();
  last.stats = stats_;
  last.status = std::move(status);
  if (embeds() && last.status.isOk() && !wasCancelled())
    last.embedding = pooled_->vector();
  last.outputs = std::move(outputs_);
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
