//===- ChatCall.h - What a request asks for, whatever its API ---*- C++ -*-===//
//
// Each interface reads its requests into these and writes the choices that come
// of them: OpenAI's, Anthropic's, Ollama's and llama-server's differ in names.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_API_CHATCALL_H
#define MOE_RUNTIME_SERVE_API_CHATCALL_H

#include "runtime/chat/ChatFormat.h"
#include "runtime/chat/ToolFormat.h"
#include "runtime/serve/Generation.h"
#include "runtime/serve/api/Parts.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moert {

/// What a request wants its answer to follow.
struct AnswerFormat {
  std::shared_ptr<const Automaton> automaton; ///< Null: the answer is free.
  /// What it was compiled from, for grammars that have more than the answer.
  std::shared_ptr<const Grammar> grammar = {};
  std::string key = {}; ///< Of the grammar, for GrammarCache.
};

/// How a text is generated, but for its prompt.
struct GenerateCall {
  std::string model; ///< "": the server's first one.
  SamplerParams sampling;
  /// Whether the request gave a seed; otherwise each gets its own.
  bool hasSeed = false;
  ReplyOptions reply;
  AnswerFormat format;
  int32_t topLogprobs = -1; ///< -1: no probabilities.
  /// Whether the prompt's tokens have probabilities too.
  bool promptLogprobs = false;
  /// As in GenerationRequest.
  std::optional<std::chrono::milliseconds> mostDecodeTime;
  int32_t choices = 1;
  bool streams = false;
  std::string client; ///< As in GenerationRequest.
  std::string user;   ///< Whom the request is for, as the client says; or "".
  int32_t priority = 0;
  bool reportsProgress = false;
  bool timesTokens = false; ///< Pieces of a stream have the times up to them.
};

/// Which tools a reply calls.
struct ToolChoice {
  enum class Kind {
    Auto,     ///< Those that the model wants, or none.
    None,     ///< None, although there are tools.
    Required, ///< At least one.
    Named,    ///< `name`.
  };
  Kind kind = Kind::Auto;
  std::string name = {};
};

/// A tool as a client knows it, where that is not the function that the model
/// is offered.
struct ToolOrigin {
  std::string name, space; ///< `space`: the namespace that it is in, or "".
  /// Its input is a text, which the function has as its argument `input`.
  bool isCustom = false;
};

/// A conversation to go on with.
struct ChatCall {
  GenerateCall generate;
  Messages messages; ///< With other variables of the template.
  ChatOptions options;
  std::vector<Tool> tools;
  ToolChoice choice;
  bool parallelCalls = true;
  /// The only tools that may be called; not set: all.
  std::optional<std::vector<std::string>> allowed;
  std::map<std::string, ToolOrigin> origins; ///< By the names of `tools`.
  /// The fields that the last messages of `messages` come from.
  std::vector<std::string> places;
  /// A part that the model cannot read, in a message that waits for its answer.
  UnreadPart unread = {};
  /// The context that the client counts on, in tokens; 0: it does not say.
  int32_t wantedContext = 0;
  /// What the ids of calls begin with.
  std::string callIdPrefix = "call_";
};

/// A call of a tool in a reply.
struct ToolCall {
  std::string id, name;
  std::string arguments; ///< JSON.
};

/// What was generated for one choice.
struct Choice {
  enum class Finish { Stop, Length, ToolCalls };

  std::string text, reasoning;
  std::vector<ToolCall> calls;
  /// Of the tokens of `text`.
  std::vector<TokenLogprob> logprobs;
  /// As in GenerationEvent.
  std::vector<TokenLogprob> promptLogprobs;
  Finish finish = Finish::Stop;
  StopReason reason = StopReason::EndOfText;
  std::string stop; ///< The stop string that ended it, or "".
  std::vector<int32_t> tokens;
  int32_t reasoningTokens = 0;
  GenerationStats stats;
};

/// The next piece of a choice.
struct Delta {
  enum class Kind {
    Text,
    Reasoning,
    CallBegin,     ///< Of calls.back(), whose id and name are known.
    CallArguments, ///< The next fragment of them.
    CallEnd,
    Progress, ///< `promptDone` of the prompt's tokens are evaluated.
  };
  Kind kind;
  std::string text = {};
  size_t call = 0;                         ///< Which of the choice's calls.
  std::vector<TokenLogprob> logprobs = {}; ///< Of Text.
  std::vector<int32_t> tokens = {};        ///< Of Text, with marks before it.
  int32_t promptDone = 0;                  ///< Of Progress.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_CHATCALL_H
