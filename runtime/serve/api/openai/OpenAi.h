//===- OpenAi.h - OpenAI's interface ----------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_OPENAI_H
#define MOE_RUNTIME_SERVE_API_OPENAI_OPENAI_H

#include "runtime/serve/api/ApiContext.h"

#include <nlohmann/json.hpp>
#include <span>

namespace moert {

// Endpoints.
void listModels(Exchange exchange);
void describeModel(Exchange exchange);
void completeChat(Exchange exchange);
void countChatTokens(Exchange exchange);
void completeText(Exchange exchange);

// Parts of requests that other interfaces share.

/// A request for a chat completion, but for `stream_options`. Returns whether
/// calls are those of functions in its answer (readOpenAiFunctions).
bool readOpenAiChat(const Field &body, const ApiSettings &settings,
                    ChatCall &call);
/// Reads messages in OpenAI's form.
void readOpenAiMessages(const Field &messages, ChatCall &call);
/// Whether a tool, or a choice of one, is of a type that servers or clients run
/// by themselves: "web_search", "tool_search". Such tools are not offered.
bool isHostedTool(const Field &tool);
/// A call of a custom tool, which takes a text, as one of its function.
ToolCall customCall(const Field &name, const Field &input);
/// One of `tools`, which is added to those of the call. With `isFlat` it has
/// its members in itself and not in `function`, as /v1/responses has them. A
/// custom tool becomes a function of one text, and the tools of a namespace
/// become tools of the call.
void readOpenAiTool(const Field &tool, bool isFlat, ChatCall &call);
/// `functions` and `function_call`, which older clients have in place of tools.
/// Returns whether the request has them: its answer calls one at most, in their
/// form. Before readOpenAiTools().
bool readOpenAiFunctions(const Field &body, ChatCall &call);
/// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
void readOpenAiTools(const Field &body, ChatCall &call, bool isFlat = false);

/// The grammar of `response_format`, or of what other servers take in its
/// place: json_schema, grammar, regex, the fields that begin with guided_, and
/// structured_outputs.
AnswerFormat readOpenAiFormat(const Field &body);

// Parts of replies.

nlohmann::ordered_json usageJson(const ReplyFacts &facts,
                                 std::span<const Choice> choices);
/// Returns the times in milliseconds, in the form of llama-server.
nlohmann::ordered_json timingsJson(const GenerationStats &stats);
/// Returns the evaluated part of a prompt in the form of llama-server.
nlohmann::ordered_json progressJson(const Choice &choice, int32_t promptDone);
/// The tokens of a text with their probabilities, as chat completions have
/// them.
nlohmann::ordered_json logprobsJson(const Tokenizer &tokenizer,
                                    std::span<const TokenLogprob> logprobs);
/// A logarithm that JSON can hold.
double finiteLogprob(float logprob);
/// Returns "stop", "length" or "tool_calls".
const char *finishName(Choice::Finish finish);

/// Returns the number of all generated tokens.
int32_t generatedTokens(std::span<const Choice> choices);
/// Returns the number of prompt tokens that came from the cache.
int32_t cachedTokens(const ReplyFacts &facts, std::span<const Choice> choices);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OPENAI_OPENAI_H
