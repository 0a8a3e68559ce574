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

/// The format that a request prescribes for its answer.
struct AnswerFormat {
  std::shared_ptr<const Automaton> automaton; ///< Null: the answer is free.
  /// The grammar from which it was compiled, for grammars that have more than
  /// the answer.
  std::shared_ptr<const Grammar> grammar = {};
  std::string key = {}; ///< Key of the grammar in GrammarCache.
};

/// Options of generating a text, apart from its prompt.
struct GenerateCall {
  std::string model; ///< "": the first model of the server.
  SamplerParams sampling;
  /// Whether the request gave a seed; otherwise each gets its own.
  bool hasSeed = false;
  ReplyOptions reply;
  AnswerFormat format;
  int32_t topLogprobs = -1; ///< -1: probabilities are not wanted.
  /// Whether the prompt's tokens have probabilities too.
  bool promptLogprobs = false;
  /// Same meaning as in GenerationRequest.
  std::optional<std::chrono::milliseconds> mostDecodeTime;
  int32_t choices = 1;
  bool streams = false;
  std::string client; ///< Same meaning as in GenerationRequest.
  std::string user;   ///< Person whom the client names in the request; or "".
  int32_t priority = 0;
  bool reportsProgress = false;
  /// Whether pieces of a stream have the times up to them.
  bool timesTokens = false;
};

/// The tools that a reply may or must call.
struct ToolChoice {
  enum class Kind {
    Auto,     ///< Any tools that the model chooses, or none.
    None,     ///< No tool may be called, although there are some.
    Required, ///< At least one tool must be called.
    Named,    ///< The tool `name` must be called.
  };
  Kind kind = Kind::Auto;
  std::string name = {};
};

/// A tool as a client knows it, where that is not the function that the model
/// is offered.
struct ToolOrigin {
  std::string name, space; ///< `space`: the namespace of the tool, or "".
  /// Whether the tool's input is a text, which the function has as its argument
  /// `input`.
  bool isCustom = false;
};

/// A conversation to go on with.
struct ChatCall {
  GenerateCall generate;
  Messages messages; ///< Messages, and other variables of the template.
  ChatOptions options;
  std::vector<Tool> tools;
  ToolChoice choice;
  bool parallelCalls = true;
  /// The only tools that may be called; not set: all.
  std::optional<std::vector<std::string>> allowed;
  std::map<std::string, ToolOrigin> origins; ///< Keys are the names of `tools`.
  /// The fields that the last messages of `messages` come from.
  std::vector<std::string> places;
  /// A part that the model cannot read, in a message that waits for its answer.
  UnreadPart unread = {};
  /// The context that the client counts on, in tokens; 0: it does not say.
  int32_t wantedContext = 0;
  /// Prefix of the ids of calls.
  std::string callIdPrefix = "call_";
};

/// A call of a tool in a reply.
struct ToolCall {
  std::string id, name;
  std::string arguments; ///< Text of a JSON object.
};

/// The generated reply of one choice.
struct Choice {
  enum class Finish { Stop, Length, ToolCalls };

  std::string text, reasoning;
  std::vector<ToolCall> calls;
  /// Probabilities of the tokens of `text`.
  std::vector<TokenLogprob> logprobs;
  /// Same meaning as in GenerationEvent.
  std::vector<TokenLogprob> promptLogprobs;
  Finish finish = Finish::Stop;
  StopReason reason = StopReason::EndOfText;
  std::string stop; ///< The stop string that ended the reply, or "".
  std::vector<int32_t> tokens;
  int32_t reasoningTokens = 0;
  GenerationStats stats;
};

/// The next piece of a choice.
struct Delta {
  enum class Kind {
    Text,
    Reasoning,
    CallBegin,     ///< The id and name of calls.back() are known.
    CallArguments, ///< The next fragment of the arguments.
    CallEnd,
    Progress, ///< `promptDone` of the prompt's tokens are evaluated.
  };
  Kind kind;
  std::string text = {};
  size_t call = 0;                         ///< Index of the call in its choice.
  std::vector<TokenLogprob> logprobs = {}; ///< Probabilities of Text.
  /// Tokens of Text, with marks in front of it.
  std::vector<int32_t> tokens = {};
  int32_t promptDone = 0; ///< Number for Progress.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_CHATCALL_H
