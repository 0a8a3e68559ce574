//===- LiveGeneration.h - A generation until its end ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_LIVEGENERATION_H
#define MOE_RUNTIME_SERVE_LIVEGENERATION_H

#include "runtime/chat/Constraint.h"
#include "runtime/engine/Sequence.h"
#include "runtime/serve/DraftPolicy.h"
#include "runtime/serve/Generation.h"
#include "runtime/serve/PromptLookup.h"
#include "runtime/serve/SchedulerStats.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>

namespace moert {

/// What a scheduler knows about a generation from its submission to its last
/// event: the text so far, how the next token is chosen, and the engine's
/// sequence while it runs. Created on any thread, then used by the scheduler's
/// thread alone, but for cancel().
class LiveGeneration {
public:
  using Clock = std::chrono::steady_clock;
  /// Returns the vocabulary for constraints; called where there is a grammar.
  using VocabularySource =
      std::function<std::shared_ptr<const ConstraintVocabulary>()>;

  /// `room` is the most tokens that a sequence can have, `vocab` the number of
  /// the engine's tokens. Fails with Usage for parameters out of range.
  static StatusOr<std::unique_ptr<LiveGeneration>>
  create(GenerationRequest request, GenerationSink sink,
         const Tokenizer &tokenizer, int32_t vocab, int32_t room,
         const VocabularySource &vocabulary);

  uint64_t id = 0;
  /// Present while the generation runs. The tokens of the text after the
  /// sequence's position are still to be evaluated.
  std::optional<Sequence> sequence;
  int32_t turns = 0; ///< Turns of the conversation (KeptSequences::Begun).
  /// Whether a file with its beginning is being read.
  bool waitsForFile = false;

  /// The request without its prompt.
  const GenerationRequest &request() const { return request_; }
  const std::string &client() const { return request_.client; }
  int32_t priority() const { return request_.priority; }
  std::span<const int32_t> text() const { return text_; }
  int32_t position() const { return sequence ? sequence->position() : 0; }
  std::span<const int32_t> rest() const {
    return std::span(text_).subspan(size_t(position()));
  }
  /// Whether only an embedding is wanted. Then text() has one token more than
  /// the prompt, because the engine gives no hidden state of the last one.
  bool embeds() const { return pooled_.has_value(); }
  /// Whether every token of the prompt is evaluated, because what it gives is
  /// wanted.
  bool needsAllTokens() const { return embeds() || request_.promptLogprobs; }
  /// Whether more than the last token is still to be evaluated.
  bool isPrompt() const { return rest().size() > 1; }

  /// Says how many tokens the text may get, with `assumed` more of them where
  /// the request has no limit. Called when it begins to run.
  void expectTokens(int32_t assumed);
  /// Result of expectTokens(), or more if the text has become longer.
  int32_t expectedTokens() const {
    return std::max(expected_, int32_t(text_.size()));
  }

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool isCancelled() const {
    return cancelled_.load(std::memory_order_relaxed);
  }
  /// Flag for Sequence::setCancel().
  const std::atomic<bool> *cancelFlag() const { return &cancelled_; }

  /// The sequence has been set: its tokens are in the cache. Returns how many
  /// of the prompt's they are; 0 if this has run before.
  int32_t begin();
  /// Counts more tokens of the prompt that were found in the cache.
  void addCached(int32_t tokens) { stats_.cachedTokens += tokens; }
  /// A step of the engine begins, whether or not this one takes part.
  void countStep() {
    if (!firstLogits_)
      ++(begun_ ? stats_.promptSteps : stats_.queueSteps);
  }
  /// The sequence has been removed, to go on later.
  void putBack() { sequence.reset(); }

  /// Drafts at most `most` of the tokens that may follow, also within what the
  /// request and the last page of the cache have room for. Not for prompts.
  std::span<const int32_t> draft(int32_t most);
  /// Probability that a drafted token is right if those before it are.
  double draftRate() const { return acceptance_.rate(); }
  /// Returns the last token of the text and, if the next step verifies them,
  /// the first `count` drafted ones.
  std::span<const int32_t> withDraft(int32_t count);

  /// Works on which tokens a grammar allows next, for about `steps` steps of
  /// work (Matcher::prepare). Returns whether a token can be chosen without
  /// more of it. A grammar that takes too long fails the generation.
  bool prepareMask(uint64_t steps);

  /// Chooses a token by the logits after the one at `position`, and sends what
  /// that makes certain. Logits after a token that was drafted wrongly are
  /// ignored. The text, which a step may be reading, changes at settle(), which
  /// also returns the sequence to the tokens that were chosen.
  void takeLogits(int32_t position, std::span<const float> logits);
  void settle();
  /// Says how much of the prompt is done, if that is wanted.
  void reportProgress();

  /// Takes the hidden state of the prompt's token at `position`, and sends the
  /// embedding after the last one.
  void takeHidden(int32_t position, std::span<const float> state);

  /// Sends the last event, if it has not been sent.
  void finish(StopReason reason);
  void fail(Status status);
  bool hasEnded() const { return ending_ != Ending::None; }
  bool hasFailed() const { return ending_ == Ending::Failed; }
  /// Whether a cancellation ended it, not something before that.
  bool wasCancelled() const {
    return ending_ == Ending::Finished &&
           reply_.reply().reason == StopReason::Cancelled;
  }

  GenerationRow row() const;
  const GenerationStats &stats() const { return stats_; }
  /// Seconds from its submission to the first token; 0 before.
  double firstTokenSeconds() const { return firstTokenSeconds_; }
  bool hasBegun() const { return begun_.has_value(); }

private:
  enum class Ending { None, Finished, Failed };

  LiveGeneration(GenerationRequest request, GenerationSink sink,
                 Sampler sampler, ReplyStream reply);
  StatusOr<int32_t> choose(std::span<const float> logits);
  void note(std::span<const float> logits, int32_t token);
  /// Keeps the probability of the prompt's token after the one at `position`.
  void notePrompt(int32_t position, std::span<const float> logits);
  /// Whether GenerationRequest::mostDecodeTime is over.
  bool isOutOfTime() const;
  /// Counts whether the draft had the token that was chosen.
  void compareWithDraft(int32_t token);
  void end(std::vector<ReplyEvent> events, Status status);
  /// The stats, with the times up to now.
  GenerationStats statsNow() const;

  GenerationRequest request_; ///< The request without its prompt.
  GenerationSink sink_;
  Sampler sampler_;
  ReplyStream reply_;
  std::optional<Constraint> constraint_;
  std::optional<PooledState> pooled_;
  std::vector<float> outputs_; ///< Outputs of the classifier.
  std::atomic<bool> cancelled_ = false;
  std::vector<int32_t> text_; ///< The prompt and the generated tokens.
  int32_t room_ = 0, expected_ = 0;
  std::vector<int32_t> chosen_; ///< Tokens that are not part of the text yet.
  PromptLookup lookup_;
  DraftAcceptance acceptance_;
  /// The text's last token, and what was drafted to follow it.
  std::vector<int32_t> drafted_;
  size_t verified_ = 0; ///< Drafted tokens that this step evaluates.
  /// Probabilities that were not sent yet.
  std::vector<TokenLogprob> logprobs_;
  std::vector<TokenLogprob> promptLogprobs_;
  std::vector<int32_t> unsent_; ///< Tokens that were not sent yet.
  Ending ending_ = Ending::None;
  GenerationStats stats_;
  Clock::time_point submitted_ = Clock::now();
  std::optional<Clock::time_point> begun_, firstLogits_;
  double firstTokenSeconds_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_LIVEGENERATION_H
