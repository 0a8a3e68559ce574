#include "tools/moert/ChatPrompt.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ReadInput.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/moert/Options.h"

namespace moert {

using Json = nlohmann::ordered_json;

/// A character that no text has, for it stands for none: Unicode keeps it free.
constexpr std::string_view breaker = "\xEF\xB7\x90";

/// For models that go on with text: what is typed starts a new line.
constexpr std::string_view plainTemplate =
    "{% for m in messages %}{% if m.role != 'assistant' and not loop.first %}"
    "{{ '\n' }}{% endif %}{{ m.content }}{% endfor %}";

void ChatFlags::add(CLI::App &command) {
  moetool::addOption(command, rows::system, system);
  moetool::addOption(command, rows::messages, messagesFile);
  moetool::addOption(command, rows::chatTemplate, templateFile);
  moetool::addOption(command, rows::think, think);
  moetool::addOption(command, rows::noSpecial, noSpecial);
}

StatusOr<Conversation> Conversation::load(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(std::string text,
                       readInput(path, kMostConversationBytes));
  return parse(text, path);
}

StatusOr<Conversation> Conversation::parse(const std::string &text,
                                           const std::string &path) {
  // Deep nesting ends here, not in a stack that is used up.
  constexpr int mostNesting = 100;
  std::string name = inputName(path);
  MOE_ASSIGN_OR_RETURN(Json json, parseJson(name, text, mostNesting));
  JsonPlace root(name, text);
  auto bad = [](const JsonPlace &place, const char *what) {
    return place.error(std::string(what) +
                       "; expected a JSON list of messages, as [{\"role\": "
                       "\"user\", \"content\": \"Hello\"}]");
  };
  bool isList = json.is_array();
  Conversation result;
  if (isList)
    result.variables_["messages"] = std::move(json);
  else if (json.is_object() && json.contains("messages"))
    result.variables_ = std::move(json);
  else
    return bad(root, "has no messages");
  JsonPlace place = isList ? root : root / "messages";
  if (!result.messages().is_array())
    return bad(place, "has messages that are no list");
  for (size_t i = 0; i < result.messages().size(); ++i) {
    const Json &message = result.messages()[i];
    if (!message.is_object() || !message.contains("role") ||
        !message["role"].is_string())
      return bad(place / i, "has a message without a role");
  }
  return result;
}

StatusOr<Conversation> Conversation::create(const ChatFlags &flags) {
  Conversation result;
  if (!flags.messagesFile.empty()) {
    MOE_ASSIGN_OR_RETURN(const std::string *text,
                         flags.texts->read("the messages", flags.messagesFile,
                                           kMostConversationBytes));
    MOE_ASSIGN_OR_RETURN(result, parse(*text, flags.messagesFile));
  }
  if (!flags.system.empty())
    result.setSystem(flags.system);
  return result;
}

/// nlohmann's text must be UTF-8 when it is written.
static std::string utf8(std::string_view text) {
  Json json = std::string(text);
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

void Conversation::add(std::string_view role, std::string_view content,
                       std::string_view reasoning) {
  Json message = {{"role", role}, {"content", utf8(content)}};
  // The names that templates know it by.
  if (!reasoning.empty())
    message["reasoning_content"] = message["thinking"] = utf8(reasoning);
  messages().push_back(std::move(message));
}

void Conversation::reset() {
  Json kept = Json::array();
  if (!messages().empty() && messages()[0]["role"] == "system")
    kept.push_back(messages()[0]);
  messages() = std::move(kept);
}

void Conversation::setSystem(std::string_view text) {
  bool has = !messages().empty() && messages()[0]["role"] == "system";
  Json message = {{"role", "system"}, {"content", utf8(text)}};
  if (has)
    messages()[0] = std::move(message);
  else
    messages().insert(messages().begin(), std::move(message));
}

std::string Conversation::lastRole() const {
  const Json &all = variables_["messages"];
  return all.empty() ? "" : all.back()["role"].get<std::string>();
}

Status Conversation::save(OutputTarget target) const {
  return writeOutput(std::move(target), variables_.dump(2) + "\n");
}

std::vector<std::pair<std::string, std::string>>
tokenVariables(const Tokenizer &tokenizer) {
  auto name = [&](std::optional<int32_t> id) {
    return id ? std::string(tokenizer.tokenBytes(*id)) : std::string();
  };
  return {{"bos_token", name(tokenizer.bos())},
          {"eos_token", name(tokenizer.eos())}};
}

StatusOr<ChatPrompt> ChatPrompt::create(const Plan &plan,
                                        const Tokenizer &tokenizer,
                                        const ChatFlags &flags) {
  if (flags.isPlain) {
    MOE_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::parse(plainTemplate));
    return ChatPrompt(std::move(chat), tokenizer, flags);
  }
  if (flags.templateFile.empty()) {
    MOE_ASSIGN_OR_RETURN(ChatTemplate chat, planChatTemplate(plan));
    return ChatPrompt(std::move(chat), tokenizer, flags);
  }
  MOE_ASSIGN_OR_RETURN(const std::string *source,
                       flags.texts->read(kTemplateRole, flags.templateFile,
                                         kMostConversationBytes));
  StatusOr<ChatTemplate> chat = ChatTemplate::parse(*source);
  if (!chat)
    return chat.status().at(inputName(flags.templateFile));
  return ChatPrompt(*std::move(chat), tokenizer, flags);
}

/// All strings in `json`, however deep, with names of special tokens broken.
static void breakNames(Json &json, const Tokenizer &tokenizer) {
  if (json.is_string())
    json = tokenizer.breakNames(json.get<std::string>(), breaker);
  else if (json.is_structured())
    for (Json &item : json)
      breakNames(item, tokenizer);
}

StatusOr<std::string>
ChatPrompt::render(const Conversation &conversation) const {
  Json variables = conversation.variables();
  if (flags_.noSpecial)
    for (Json &message : variables["messages"])
      if (message["role"] != "assistant" && message.contains("content"))
        breakNames(message["content"], *tokenizer_);
  if (!variables.contains("add_generation_prompt"))
    variables["add_generation_prompt"] = true;
  if (flags_.think == "off" || flags_.think == "force")
    variables["enable_thinking"] = flags_.think == "force";
  ChatInput input;
  input.json = variables.dump();
  input.strings = tokenVariables(*tokenizer_);
  MOE_ASSIGN_OR_RETURN(std::string text, template_.render(input));
  if (flags_.think == "force") {
    size_t last = text.find_last_not_of(" \n");
    std::string_view shown = std::string_view(text).substr(0, last + 1);
    if (!shown.ends_with("<think>"))
      text += "<think>\n";
  }
  return text;
}

StatusOr<std::vector<int32_t>> ChatPrompt::encode(std::string_view text,
                                                  bool continues) const {
  EncodeOptions options;
  // Begin-of-text is a template's to give.
  if (!flags_.isPlain || continues)
    options.addBos = false;
  options.addEos = false;
  options.startsText = !continues;
  if (flags_.noSpecial)
    options.breaker = breaker;
  return tokenizer_->encode(text, options);
}

Status ReplyPrinter::show(const std::vector<ReasoningSplitter::Part> &parts) {
  for (const ReasoningSplitter::Part &part : parts) {
    (part.isReasoning ? reasoning_ : answer_) += part.text;
    if (quiet_ || (part.isReasoning && hides_))
      continue;
    if (part.isReasoning != isDim_) {
      if (isDim_)
        moetool::printText("\n\n");
      isDim_ = part.isReasoning;
      moetool::setDim(isDim_);
    }
    moetool::printText(part.text);
  }
  // Without a reader there is no more to do.
  return moetool::flush();
}

Status ReplyPrinter::finish() {
  Status status = show(splitter_.finish());
  if (std::exchange(isDim_, false))
    moetool::setDim(false);
  return status;
}

} // namespace moert
