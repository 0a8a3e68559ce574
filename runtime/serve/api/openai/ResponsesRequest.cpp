#include "runtime/base/Text.h"
#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/serve/api/openai/Responses.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::string reasoningText(const Field &item) {
  std::string text;
  for (const char *key : {"content", "summary"})
    if (text.empty())
      for (const Field &part : item[key].list(kMostMessages))
        text += part["text"].required().text().value_or("");
  return text;
}

/// Calls of tools and reasoning are items of their own here, and parts of the
/// assistant's message in a conversation.
class ItemReader {
public:
  explicit ItemReader(ChatCall &call) : call_(call) {}

  void read(const Field &item) {
    if (!item.object())
      return;
    std::string type = item["type"]
                           ? item["type"]
                                 .word({"message", "function_call",
                                        "function_call_output", "reasoning"})
                                 .value_or("")
                           : "message";
    if (type == "message")
      readMessage(item);
    else if (type == "reasoning")
      pending_.reasoning += reasoningText(item);
    else if (type == "function_call")
      pending_.calls.push_back(
          {item["call_id"].required().text().value_or(""),
           item["name"].required().text().value_or(""),
           item["arguments"].required().text().value_or("")});
    else if (type == "function_call_output")
      readOutput(item);
  }

  void finish() {
    if (!pending_.calls.empty() || !pending_.content.empty())
      addMessage(call_, std::move(pending_));
    pending_ = {.role = "assistant", .content = ""};
  }

private:
  void readMessage(const Field &item) {
    std::string role = item["role"]
                           .required()
                           .word({"system", "developer", "user", "assistant"})
                           .value_or("");
    std::string content = readContent(item["content"].required(),
                                      {"input_text", "output_text", "text"});
    if (role == "assistant") {
      pending_.content += content;
      return;
    }
    finish();
    addMessage(call_, {.role = role == "developer" ? "system" : role,
                       .content = std::move(content)});
  }

  void readOutput(const Field &item) {
    finish();
    addMessage(call_,
               {.role = "tool",
                .content = readContent(item["output"].required(),
                                       {"input_text", "output_text"}),
                .toolCallId = item["call_id"].required().text().value_or("")});
  }

  ChatCall &call_;
  MessageParts pending_{.role = "assistant", .content = ""};
};

void readFormat(const Field &text, GenerateCall &generate) {
  static const Json anyObject = true;
  Field format = text["format"];
  if (!format.object())
    return;
  std::string type = format["type"]
                         .required()
                         .word({"text", "json_object", "json_schema"})
                         .value_or("");
  Field schema = type == "json_schema"   ? format["schema"].required()
                 : type == "json_object" ? format.as(anyObject)
                                         : format.none();
  generate.grammar = readGrammar(schema, text.none(), text.none(), text.none());
}
} // namespace

void readResponse(const Field &body, const ApiSettings &settings,
                  ResponseRequest &request) {
  ChatCall &call = request.call;
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  Field input = body["input"].required();
  if (input)
    request.input = input.json();
  if (input.isText()) {
    addMessage(call, {.role = "user", .content = *input.text()});
  } else {
    ItemReader reader(call);
    for (const Field &item : input.list(kMostMessages))
      reader.read(item);
    reader.finish();
    if (input.isList() && input.json().empty())
      input.fail("must have one item at least");
  }
  readOpenAiTools(body, call, /*isFlat=*/true);
  readSampling(body, settings, generate);
  if (auto effort = body["reasoning"]["effort"].word(
          {"none", "minimal", "low", "medium", "high", "xhigh"}))
    setReasoningEffort(*effort, call);
  readFormat(body["text"], generate);
  generate.reply = ReplyOptions::forChat();
  generate.reply.maxTokens = int32_t(
      body["max_output_tokens"].integer(1, kMostRequestTokens).value_or(-1));
  generate.streams = body["stream"].boolean().value_or(false);
  request.isKept = body["store"].boolean().value_or(true);
  request.previousId = body["previous_response_id"].text().value_or("");
  (void)body["instructions"].text();
  body["background"].refuse("wait for the answer, or stream it");
  body["prompt"].refuse("this server has no stored prompts");
  body["conversation"].refuse("use previous_response_id");
  // What the answer repeats.
  Json &echoed = request.echoed;
  for (const char *key :
       {"instructions", "max_output_tokens", "previous_response_id", "user"})
    echoed[key] = body[key] ? body[key].json() : Json(nullptr);
  echoed["metadata"] =
      body["metadata"] ? body["metadata"].json() : Json::object();
  echoed["parallel_tool_calls"] = call.parallelCalls;
  echoed["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  if (Field effort = body["reasoning"]["effort"])
    echoed["reasoning"]["effort"] = effort.json();
  echoed["store"] = request.isKept;
  echoed["temperature"] = generate.sampling.temperature;
  echoed["text"] =
      body["text"] ? body["text"].json() : Json{{"format", {{"type", "text"}}}};
  echoed["tool_choice"] =
      body["tool_choice"] ? body["tool_choice"].json() : Json("auto");
  echoed["tools"] = body["tools"] ? body["tools"].json() : Json::array();
  echoed["top_p"] = generate.sampling.topP;
  echoed["truncation"] = "disabled";
}

} // namespace moert
