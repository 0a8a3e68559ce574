//===- CommonFields.h - Fields that several interfaces share ----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_COMMONFIELDS_H
#define MOE_RUNTIME_SERVE_API_COMMONFIELDS_H

#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/ChatCall.h"
#include "runtime/serve/api/Fields.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace moert {

/// Sampling parameters by the names that OpenAI, llama-server and Ollama share,
/// and the defaults for those that are absent. Samplers that other engines have
/// and this one does not are skipped with a note.
void readSampling(const Field &object, const ApiSettings &settings,
                  GenerateCall &call);

/// `priority` and `user`: without keys, each user has a share of the engine.
/// Also llama-server's return_progress and timings_per_token.
void readService(const Field &body, GenerateCall &call);

/// `stop`: a text or a list of texts, none of them empty.
std::vector<std::string> readStops(const Field &stop);

/// A limit of generated tokens by one of these names; -1, which is also the
/// default, is none.
int32_t readMostTokens(const Field &object,
                       std::initializer_list<const char *> names);

/// The one of `fields` that is there, or else an absent one. Two are an error,
/// unless they are equal.
Field oneOf(std::initializer_list<Field> fields);

/// What output must follow: `schema` is a JSON schema (true: any JSON object),
/// `grammar` a text in GBNF, `regex` an expression, `choice` a list of texts.
/// Absent ones are no limit; two are an error. Errors name the field.
AnswerFormat readGrammar(const Field &schema, const Field &grammar,
                         const Field &regex, const Field &choice);

/// A tool with `name`, `description` and `strict`; `schema` is the field that
/// has its arguments' schema.
Tool readTool(const Field &function, const Field &schema);

/// Hands the call's tools to its template, in OpenAI's form.
void setTools(ChatCall &call);

/// A message of a conversation, in the words of no interface.
struct MessageParts {
  std::string role, content;
  std::string reasoning = {};
  std::vector<ToolCall> calls = {};
  std::string toolCallId = {}, name = {}; ///< Fields of a tool's answer.
  std::string place = {};                 ///< Name of the message's field.
  UnreadPart unread = {}; ///< Part of the content that cannot be read.
};
/// A message that says `content`. Thoughts of anybody but the assistant are a
/// part of what he says.
MessageParts messageParts(std::string role, Content content,
                          const Field &place);
/// Adds the message as fitPrompt() takes it: arguments of calls are JSON
/// objects, unless they are none. What the model cannot read has to be an error
/// where the user waits for an answer to it, and is a note in older messages
/// and beside the results of tools.
void addMessage(ChatCall &call, MessageParts parts);
/// Adds instructions in front of all messages.
void addInstructions(ChatCall &call, const std::string &text);

/// continue_final_message and add_generation_prompt, after the messages: with
/// neither, a last message of the assistant is gone on with.
void readContinuation(const Field &body, ChatCall &call);

/// `logprobs`, true or false, and `top_logprobs`.
void readLogprobs(const Field &body, GenerateCall &call);

/// Sets a variable of the chat template by a word for the effort of reasoning.
/// Words that nobody knows are skipped.
void readReasoningEffort(const Field &effort, ChatCall &call);

/// A number as it was written before it became a float: 0.8, not
/// 0.800000011920929.
double shownFloat(float value);

/// Adds `chat_template_kwargs`, which must not replace the conversation.
void readTemplateVariables(const Field &variables, ChatCall &call);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_COMMONFIELDS_H
