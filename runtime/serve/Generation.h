//===- Generation.h - What a scheduler is asked to generate -----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_GENERATION_H
#define MOE_RUNTIME_SERVE_GENERATION_H

#include "runtime/base/Status.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/constrain/Automaton.h"
#include "runtime/engine/Pooling.h"
#include "runtime/text/Sampler.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moert {

/// One text to generate, or to embed. A request for several choices is several
/// generations.
struct GenerationRequest {
  std::vector<int32_t> prompt; ///< At least one token.
  /// The prompt's text: it may have begun the reasoning (ReplyStream).
  std::string promptText;
  SamplerParams sampling;
  ReplyOptions reply;
  /// The grammar that the text must follow from its first token on
  /// (ReplyGrammar.h); null: none.
  std::shared_ptr<const Automaton> grammar;
  /// How many alternatives to report of each token; -1: no probabilities.
  int32_t topLogprobs = -1;
  /// Whether there are events while the prompt is evaluated.
  bool reportsProgress = false;
  /// Whether the prompt's tokens are reported too, with `topLogprobs`, or no,
  /// alternatives. All of them are evaluated then, whatever is in the cache.
  bool promptLogprobs = false;
  /// The text ends, as one that has reached its length, once it has taken so
  /// long since its first token and has a line's end. Not set: no limit.
  std::optional<std::chrono::milliseconds> mostDecodeTime;
  std::string client; ///< The client whose share of the engine is used.
  /// Names those who may find out what each other asked: a prompt is found in
  /// the cache where one of the same group has been evaluated.
  std::string group;
  /// Whether it is another choice of a request that was taken: the limits of
  /// the queue have counted that one.
  bool isFurtherChoice = false;
  int32_t priority = 0; ///< Higher priorities leave the queue first.
  /// If it is set, nothing is generated: the prompt's embedding is computed.
  /// Other fields but `prompt`, `client` and `priority` do not matter then.
  std::optional<Pooling> embed;
  /// If it is set, nothing is generated either: the outputs of the model's
  /// classifier after the prompt are computed.
  bool classifies = false;
};

/// A token that was chosen, with natural logarithms of probabilities as the
/// model gives them (temperature 1, before penalties, masks and filters).
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  /// The most likely tokens, GenerationRequest::topLogprobs of them, by
  /// descending probability.
  std::vector<std::pair<int32_t, float>> top;
};

struct GenerationStats {
  int32_t promptTokens = 0;
  int32_t cachedTokens = 0;    ///< Prompt tokens that were found in the cache.
  int32_t generatedTokens = 0; ///< Number without the end-of-generation token.
  int32_t draftedTokens = 0, acceptedTokens = 0; ///< Tokens of speculation.
  double queueSeconds = 0, promptSeconds = 0, decodeSeconds = 0;
  /// Steps of the engine that began while it waited in the queue, and those
  /// from then on until its first token.
  int32_t queueSteps = 0, promptSteps = 0;
};

/// Progress of one generation.
struct GenerationEvent {
  std::vector<ReplyEvent> events; ///< Events that the tokens have made certain.
  /// Probabilities of the tokens since the last event.
  std::vector<TokenLogprob> logprobs;
  /// Probabilities of the prompt's tokens from the second on, if they are
  /// wanted: in the first event.
  std::vector<TokenLogprob> promptLogprobs = {};
  /// The tokens since the last event, as in Reply.
  std::vector<int32_t> tokens = {};
  /// Statistics up to this event.
  GenerationStats stats = {};
  /// Tokens of the prompt that have been evaluated or were in the cache; 0 in
  /// events after the first token.
  int32_t promptDone = 0;
  /// Whether this is the last one. Then `reply` and `status` are set: a failure
  /// other than the client's cancellation ends it with an error.
  bool isEnd = false;
  Reply reply = {};
  Status status = {};
  /// [Engine::hidden()], a vector of length 1; empty unless
  /// GenerationRequest::embed.
  std::vector<float> embedding = {};
  /// Engine::logitsSize() logits; empty unless GenerationRequest::classifies.
  std::vector<float> outputs = {};
};

/// Receives the events of a generation in order, on the scheduler's thread,
/// which it must not hold up.
using GenerationSink = std::function<void(GenerationEvent)>;

} // namespace moert

#endif // MOE_RUNTIME_SERVE_GENERATION_H
