#include "runtime/text/ChatTemplate.h"

#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Lexer.h"
#include "runtime/text/jinja/Parser.h"
#include "runtime/text/jinja/Unicode.h"

namespace moert {

/// Real templates have up to 30 KB.
constexpr size_t mostTemplateBytes = 1 << 20;

struct ChatTemplate::Impl {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;
ChatTemplate &ChatTemplate::operator=(ChatTemplate &&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

StatusOr<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > mostTemplateBytes)
    return Status(StatusCode::InvalidFile,
                  "has " + std::to_string(source.size()) + " bytes; at most " +
                      std::to_string(mostTemplateBytes) + " are supported")
        .at("chat template");
  StatusOr<jinja::Body> body =
      jinja::parse(jinja::validText(source), jinja::Limits().depth);
  if (!body)
    return body.status().at("chat template");
  auto impl = std::make_unique<Impl>();
  impl->body = *std::move(body);
  return ChatTemplate(std::move(impl));
}

StatusOr<std::string> ChatTemplate::render(const ChatInput &input) const {
  jinja::Heap heap({.deadline = input.deadline});
  jinja::Result variables = jinja::parseJson(heap, input.json);
  if (!variables)
    return Status(StatusCode::InvalidFile, "the input of the chat template is "
                                           "not JSON: " +
                                               variables.status().message());
  if (!variables->is(jinja::Kind::Dict))
    return Status(StatusCode::InvalidFile,
                  "the input of the chat template is not a JSON object of "
                  "variables");
  jinja::Scope *names = heap.make<jinja::Scope>(nullptr);
  // Templates use these variables without testing whether they are defined.
  names->set("tools", jinja::Value::none());
  for (const auto &[name, text] : input.strings)
    names->set(name, heap.string(jinja::validText(text)));
  jinja::DateTime now = jinja::localNow();
  for (const auto &[key, value] : variables->dict().entries) {
    if (key.text() != "strftime_now") {
      names->set(key.text(), value);
      continue;
    }
    std::string text = jinja::str(heap, value);
    MOE_ASSIGN_OR_RETURN(now, jinja::parseDateTime(text));
  }
  jinja::Interpreter interpreter(heap, names, now);
  StatusOr<std::string> text = interpreter.run(impl_->body);
  if (text || interpreter.wasRaised())
    return text;
  Status status = text.status();
  if (auto place = interpreter.place())
    status = jinja::failureAt(*place, status.message());
  return std::move(status).at("chat template");
}

} // namespace moert
