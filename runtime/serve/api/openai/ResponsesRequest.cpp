#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/serve/api/openai/Responses.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// The text of a reasoning item: the whole of it, or else its summary.
std::string reasoningText(const Field &item) {
  for (const char *key : {"content", "summary"})
    if (Field field = item[key]) {
      Content content = readContent(field);
      if (std::string text = content.reasoning + content.text; !text.empty())
        return text;
    }
  return "";
}

/// Calls of tools and reasoning are items of their own here, and parts of the
/// assistant's message in a conversation.
class ItemReader {
public:
  explicit ItemReader(ChatCall &call) : call_(call) {}

  void read(const Field &item) {
    if (!item.object())
      return;
    const std::string type = item["type"].text().value_or("message");
    if (type == "message")
      readMessage(item);
    else if (type == "reasoning")
      pending_.reasoning += reasoningText(item);
    else if (type == "item_reference")
      item.fail("names an item of another response: send the item itself, or "
                "previous_response_id");
    else if (type.ends_with("compaction"))
      // Another server has encrypted it.
      item["type"].note("is skipped: it cannot be read");
    else if (item["call_id"] && type.ends_with("_output"))
      readOutput(item);
    else if (item["call_id"] && type.ends_with("_call"))
      readCall(item, type);
    else
      readOther(item, type);
    if (pending_.place.empty())
      pending_.place = item.path();
  }

  void finish() {
    if (!pending_.calls.empty() || !pending_.content.empty() ||
        !pending_.reasoning.empty())
      addMessage(call_, std::move(pending_));
    pending_ = {.role = "assistant", .content = ""};
  }

private:
  void readMessage(const Field &item) {
    std::string role = item["role"]
                           .required()
                           .word({"system", "developer", "user", "assistant"})
                           .value_or("");
    Content content = readContent(item["content"].required());
    if (role == "assistant") {
      pending_.content += content.text;
      pending_.reasoning += content.reasoning;
      return;
    }
    finish();
    addMessage(call_, messageParts(role, std::move(content), item));
  }

  void readCall(const Field &item, const std::string &type) {
    ToolCall call;
    Field name = item["name"];
    if (type == "function_call") {
      call.name = name.required().text().value_or("");
      call.arguments = item["arguments"].required().text().value_or("");
    } else if (type == "custom_tool_call") {
      call = customCall(name.required(), item["input"].required());
    } else {
      // For example, a local_shell_call has an action.
      call.name =
          name.isText() ? *name.text() : type.substr(0, type.rfind("_call"));
      Field action = item["action"] ? item["action"] : item["operation"];
      call.arguments = item["arguments"].isText() ? *item["arguments"].text()
                       : action.isObject()
                           ? action.json().dump()
                           : customCall(name, item["input"]).arguments;
    }
    call.id = item["call_id"].text().value_or("");
    // The name by which the model is offered it.
    const std::string space = item["namespace"].text().value_or("");
    for (const auto &[offered, origin] : call_.origins)
      if (!space.empty() && origin.space == space && origin.name == call.name)
        call.name = offered;
    pending_.calls.push_back(std::move(call));
  }

  void readOutput(const Field &item) {
    finish();
    Field output = item["output"] ? item["output"] : item["tools"];
    const bool isContent = output.isText() || output.isList();
    MessageParts parts =
        messageParts("tool", isContent ? readContent(output) : Content{}, item);
    if (!isContent)
      parts.content = itemText(output.required());
    parts.toolCallId = item["call_id"].text().value_or("");
    addMessage(call_, std::move(parts));
  }

  /// Such as a web_search_call, which has its result in itself, or a type that
  /// is newer than this: what the assistant said.
  void readOther(const Field &item, const std::string &type) {
    item["type"].note("has no form of its own: the item is kept as text");
    if (item["content"]) {
      pending_.content += readContent(item["content"]).text;
      return;
    }
    if (!pending_.content.empty())
      pending_.content += '\n';
    pending_.content += itemText(item);
  }

  ChatCall &call_;
  MessageParts pending_{.role = "assistant", .content = ""};
};

/// `top_logprobs`, and `include` with "message.output_text.logprobs".
void readResponseLogprobs(const Field &body, GenerateCall &generate) {
  Field top = body["top_logprobs"];
  if (auto count = top.integer(0, kMostTopLogprobs))
    generate.topLogprobs = int32_t(*count);
  for (const Field &item : body["include"].list(kMostTools)) {
    const std::string what = item.text().value_or("");
    if (what == "message.output_text.logprobs")
      generate.topLogprobs = std::max(generate.topLogprobs, 0);
    else if (what != "reasoning.encrypted_content")
      item.note("is skipped: there is nothing of this kind");
  }
}

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
  generate.format = readGrammar(schema, text.none(), text.none(), text.none());
}
} // namespace

void readResponseItems(const Field &items, ChatCall &call) {
  ItemReader reader(call);
  for (const Field &item : items.list(kMostMessages))
    reader.read(item);
  reader.finish();
}

std::string readConversation(const Field &body) {
  Field conversation = body["conversation"];
  if (conversation.isObject())
    conversation = conversation["id"].required();
  return conversation.text().value_or("");
}

void readResponse(const Field &body, const ApiSettings &settings,
                  ResponseRequest &request) {
  ChatCall &call = request.call;
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  // The tools are read first, because calls of the input are named like them.
  readOpenAiTools(body, call, /*isFlat=*/true);
  Field input = body["input"].required();
  if (input)
    request.input = input.json();
  if (input.isText()) {
    addMessage(call, {.role = "user", .content = *input.text()});
  } else {
    readResponseItems(input, call);
    if (input.isList() && input.json().empty())
      input.fail("must have one item at least");
  }
  readSampling(body, settings, generate);
  readReasoningEffort(body["reasoning"]["effort"], call);
  readResponseLogprobs(body, generate);
  readService(body, generate);
  readFormat(body["text"], generate);
  generate.reply.maxTokens = int32_t(
      body["max_output_tokens"].integer(1, kMostRequestTokens).value_or(-1));
  generate.streams = body["stream"].boolean().value_or(false);
  request.isKept = body["store"].boolean().value_or(true);
  request.previousId = body["previous_response_id"].text().value_or("");
  (void)body["instructions"].text();
  body["background"].refuse("wait for the answer, or stream it");
  body["prompt"].refuse("this server has no stored prompts");
  request.conversation = readConversation(body);
  if (!request.conversation.empty() && !request.previousId.empty())
    body["conversation"].fail("cannot be combined with previous_response_id");
  // Fields that the answer repeats.
  Json &echoed = request.echoed;
  for (const char *key :
       {"instructions", "max_output_tokens", "previous_response_id", "user"})
    echoed[key] = body[key] ? body[key].json() : Json(nullptr);
  echoed["metadata"] =
      body["metadata"] ? body["metadata"].json() : Json::object();
  echoed["conversation"] = request.conversation.empty()
                               ? Json(nullptr)
                               : Json{{"id", request.conversation}};
  echoed["parallel_tool_calls"] = call.parallelCalls;
  echoed["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  if (Field effort = body["reasoning"]["effort"])
    echoed["reasoning"]["effort"] = effort.json();
  echoed["store"] = request.isKept;
  echoed["temperature"] = shownFloat(generate.sampling.temperature);
  echoed["text"] =
      body["text"] ? body["text"].json() : Json{{"format", {{"type", "text"}}}};
  echoed["tool_choice"] =
      body["tool_choice"] ? body["tool_choice"].json() : Json("auto");
  echoed["tools"] = body["tools"] ? body["tools"].json() : Json::array();
  echoed["top_p"] = shownFloat(generate.sampling.topP);
  echoed["top_logprobs"] = std::max(generate.topLogprobs, 0);
  echoed["truncation"] = "disabled";
}

} // namespace moert
