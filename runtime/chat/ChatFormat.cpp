#include "runtime/chat/ChatFormat.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/chat/SpeechProbe.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/text/StreamDecoder.h"

#include <ctime>
#include <fmt/format.h>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// U+FDD1, a noncharacter that Unicode reserves for internal use, so that no
/// text contains it: where the text of a message that is continued ends.
constexpr std::string_view endMark = "\xEF\xB7\x91";

/// Whether a reply can go on with the last message.
bool isUnfinished(const Json &messages) {
  if (!messages.is_array() || messages.empty())
    return false;
  const Json &last = messages.back();
  return last["role"] == "assistant" && last.contains("content") &&
         last["content"].is_string() &&
         (!last.contains("tool_calls") || last["tool_calls"].empty());
}

/// The template for models that only continue text: each message of the user
/// starts a new line.
constexpr std::string_view plainTemplate =
    "{% for m in messages %}{% if m.role != 'assistant' and not loop.first %}"
    "{{ '\n' }}{% endif %}{{ m.content }}{% endfor %}";

/// Breaks the names of special tokens in all strings of `json`, at any depth,
/// names of members among them.
void breakNames(Json &json, const Tokenizer &tokenizer) {
  if (json.is_string()) {
    json = tokenizer.breakNames(json.get<std::string>(), kNameBreaker);
  } else if (json.is_array()) {
    for (Json &item : json)
      breakNames(item, tokenizer);
  } else if (json.is_object()) {
    Json broken = Json::object();
    for (auto &[name, value] : json.items()) {
      breakNames(value, tokenizer);
      broken[tokenizer.breakNames(name, kNameBreaker)] = std::move(value);
    }
    json = std::move(broken);
  }
}

/// The breaker as a template writes it in JSON that is ASCII.
void unescapeBreakers(std::string &text) {
  constexpr std::string_view escaped = "\\ufdd0";
  for (size_t at = 0; (at = text.find(escaped, at)) != text.npos;
       at += kNameBreaker.size())
    text.replace(at, escaped.size(), kNameBreaker);
}

/// Takes reasoning that an answer of the assistant begins with, marks and all,
/// out of it: templates know it by fields of its own.
void splitReasoning(Json &message, const Speech &speech) {
  const std::string begin = namedControls(withoutBlanks(speech.reasoningBegin)),
                    end = namedControls(withoutBlanks(speech.reasoningEnd));
  auto content = message.find("content");
  if (begin.empty() || end.empty() || message["role"] != "assistant" ||
      content == message.end() || !content->is_string() ||
      message.contains("reasoning_content"))
    return;
  const std::string text = content->get<std::string>();
  const std::string_view all = withoutBlanks(text);
  const size_t at = all.find(end);
  if (!all.starts_with(begin) || at == all.npos)
    return;
  const std::string reasoning(
      withoutBlanks(all.substr(begin.size(), at - begin.size())));
  *content = withoutBlanks(all.substr(at + end.size()));
  for (const char *name : {"reasoning_content", "reasoning", "thinking"})
    message[name] = reasoning;
}

/// The date of a conversation as YYYY-MM-DD: that of strftime_now
/// (ChatInput::json), else today's. Without a time, prompts that were cached
/// stay usable for a day.
std::string dateOf(const Json &variables) {
  if (auto now = variables.find("strftime_now");
      now != variables.end() && now->is_string())
    return now->get<std::string>().substr(0, 10);
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1,
                     day.tm_mday);
}
} // namespace

StatusOr<Json> readTemplateValues(std::string_view json) {
  MOE_ASSIGN_OR_RETURN(Json values, parseJson("the template's values", json,
                                              kMostConversationNesting));
  if (!values.is_object() || values.contains("messages") ||
      values.contains("tools"))
    return Status(StatusCode::Usage,
                  "expected an object without messages and tools, as in "
                  "{\"enable_thinking\": false}");
  return values;
}

std::vector<std::pair<std::string, std::string>>
tokenVariables(const Tokenizer &tokenizer) {
  auto name = [&](std::optional<int32_t> id) {
    return id ? std::string(tokenizer.tokenBytes(*id)) : std::string();
  };
  return {{"bos_token", name(tokenizer.bos())},
          {"eos_token", name(tokenizer.eos())}};
}

ChatFormat::ChatFormat(ChatTemplate chat, const Tokenizer &tokenizer,
                       bool isPlain)
    : template_(std::make_shared<const ChatTemplate>(std::move(chat))),
      tokenizer_(&tokenizer), isPlain_(isPlain) {
  auto render = [&](const Json &variables) {
    return template_->render(
        {.json = variables.dump(), .strings = textVariables(variables)});
  };
  const Json shortest = {
      {"messages", Json::array({{{"role", "user"}, {"content", "a"}}})}};
  if (!render(shortest)) {
    wantsFunctionText_ = true;
    wantsFunctionText_ = bool(render(shortest));
  }
  speech_ = std::make_shared<const Speech>(learnSpeech(render, tokenizer));
  history_ = std::make_shared<const History>(render);
}

std::vector<std::pair<std::string, std::string>>
ChatFormat::textVariables(const Json &variables) const {
  auto texts = tokenVariables(*tokenizer_);
  if (!wantsFunctionText_)
    return texts;
  Json functions = Json::array();
  if (auto tools = variables.find("tools");
      tools != variables.end() && tools->is_array())
    for (const Json &tool : *tools)
      functions.push_back(tool.is_object() ? tool.value("function", tool)
                                           : tool);
  texts.emplace_back("functions", functions.dump(4));
  texts.emplace_back("datetime", dateOf(variables));
  return texts;
}

StatusOr<ChatFormat> ChatFormat::create(const Plan &plan,
                                        const Tokenizer &tokenizer) {
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, planChatTemplate(plan));
  return ChatFormat(std::move(chat), tokenizer, /*isPlain=*/false);
}

StatusOr<ChatFormat> ChatFormat::fromTemplate(std::string_view source,
                                              const Tokenizer &tokenizer) {
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::parse(source));
  return ChatFormat(std::move(chat), tokenizer, /*isPlain=*/false);
}

ChatFormat ChatFormat::plain(const Tokenizer &tokenizer) {
  return ChatFormat(*ChatTemplate::parse(plainTemplate), tokenizer,
                    /*isPlain=*/true);
}

StatusOr<std::string> ChatFormat::render(const Messages &messages,
                                         const ChatOptions &options) const {
  Json variables = messages.variables();
  if (options.noSpecial) {
    for (Json &message : variables["messages"])
      splitReasoning(message, *speech_);
    for (const char *name : {"messages", "tools"})
      if (variables.contains(name))
        breakNames(variables[name], *tokenizer_);
  }
  Thinking thinking = options.thinking;
  if (defaults_) {
    if (thinking == Thinking::Default && !variables.contains("thinking") &&
        !variables.contains("enable_thinking"))
      thinking = defaults_->thinking;
    for (const auto &[name, value] : defaults_->values.items())
      if (!variables.contains(name))
        variables[name] = value;
  }
  if (!variables.contains("add_generation_prompt"))
    variables["add_generation_prompt"] = true;
  const bool continues =
      options.continuesLast && isUnfinished(variables["messages"]);
  if (continues) {
    Json &content = variables["messages"].back()["content"];
    content = content.get<std::string>() + std::string(endMark);
    variables["add_generation_prompt"] = false;
  }
  if (thinking != Thinking::Default)
    variables["enable_thinking"] = thinking == Thinking::Forced;
  ChatInput input;
  input.strings = textVariables(variables);
  input.json = variables.dump();
  variables = nullptr; // Frees memory: the variables may be large.
  input.deadline = options.deadline;
  MOE_ASSIGN_OR_RETURN(std::string text, template_->render(input));
  if (options.noSpecial)
    unescapeBreakers(text);
  if (continues) {
    // The template's text behind this one ends the message.
    const size_t end = text.rfind(endMark);
    if (end == std::string::npos)
      return Status(StatusCode::Usage,
                    "the chat template does not write the last message, so "
                    "that the reply cannot go on with it");
    text.resize(end);
    return text;
  }
  if (thinking == Thinking::Forced && !speech_->isInside(text) &&
      !speech_->reasoningBegin.empty())
    text += namedControls(withoutBlanks(speech_->reasoningBegin)) + "\n";
  return text;
}

StatusOr<std::vector<int32_t>> ChatFormat::encode(std::string_view text,
                                                  const ChatOptions &options,
                                                  bool continues) const {
  EncodeOptions encoding;
  // Templates add the begin-of-text token themselves.
  if (!isPlain_ || continues)
    encoding.addBos = false;
  encoding.addEos = false;
  encoding.startsText = !continues;
  encoding.deadline = options.deadline;
  if (options.noSpecial)
    encoding.breaker = kNameBreaker;
  return tokenizer_->encode(text, encoding);
}

StatusOr<ChatPrompt> ChatFormat::prompt(const Messages &messages,
                                        const ChatOptions &options) const {
  ChatPrompt prompt;
  MOE_ASSIGN_OR_RETURN(prompt.text, render(messages, options));
  MOE_ASSIGN_OR_RETURN(prompt.tokens, encode(prompt.text, options));
  return prompt;
}

} // namespace moert
