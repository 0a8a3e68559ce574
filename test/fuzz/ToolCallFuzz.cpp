// Replies with calls of tools, in every form that templates have (the first
// byte), cut into pieces (the second one).
#include "runtime/base/Utf8.h"
#include "runtime/chat/ToolCalls.h"
#include "test/fuzz/Fuzz.h"
#include "test/fuzz/JsonText.h"

#include <vector>

using namespace moert;
using moefuzz::require;
using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view kForms[] = {
    "deepseek-v3.2", "deepseek-v3",  "deepseek-v3.1", "kimi-k2",
    "deepseek-v4",   "gemma4",
    "gpt-oss",       "mistral-args", "mistral-list",  "minimax-m2",
    "glm-4.5",       "qwen3-coder",  "hermes",        "llama-3.1",
    "lfm2",
};

const std::vector<Tool> &tools() {
  static const std::vector<Tool> tools = {
      {.name = "add",
       .parameters = Json::parse(
           R"({"type":"object","properties":{"x":{"type":"integer"},
           "t":{"type":"string"},"l":{"type":"array"}}})")},
      {.name = "f"}};
  return tools;
}

/// Returns events, with neighbours of one kind joined, so that cuts do not
/// show.
std::vector<ToolEvent> parse(const ToolFormat &format, std::string_view text,
                             size_t piece) {
  const std::vector<ToolFormat> formats = {format};
  ToolCallParser parser(formats, tools());
  std::vector<ToolEvent> all;
  auto add = [&](std::vector<ToolEvent> events) {
    for (ToolEvent &event : events)
      if (!all.empty() && all.back().kind == event.kind &&
          (event.kind == ToolEvent::Kind::Text ||
           event.kind == ToolEvent::Kind::Arguments))
        all.back().text += event.text;
      else
        all.push_back(std::move(event));
  };
  for (size_t at = 0; at < text.size(); at += piece)
    add(parser.push(text.substr(at, piece)));
  add(parser.finish());
  return all;
}

/// A reply's text is UTF-8, whatever bytes its tokens have (StreamDecoder).
std::string asUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Unit unit = nextUtf8(bytes);
    if (unit.kind == Utf8Kind::Valid)
      text += bytes.substr(0, unit.length);
    else
      text += replacementCharacter;
    bytes.remove_prefix(unit.length);
  }
  return text;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const ToolFormat *format =
      toolFormatNamed(kForms[input.byte() % std::size(kForms)]);
  require(format != nullptr, "a form of this name exists");
  const size_t piece = size_t(input.byte()) % 16 + 1;
  const std::string text = asUtf8(input.rest());
  const std::vector<ToolEvent> events = parse(*format, text, piece);
  require(events == parse(*format, text, text.size() + 1),
          "cuts change nothing", format->name);

  bool isOpen = false;
  std::string arguments;
  for (const ToolEvent &event : events) {
    switch (event.kind) {
    case ToolEvent::Kind::Text:
      require(!isOpen, "no text is inside a call", event.text);
      break;
    case ToolEvent::Kind::Begin:
      require(!isOpen, "no call is inside another", event.text);
      require(!event.text.empty(), "a call has a name", text);
      isOpen = true;
      arguments.clear();
      break;
    case ToolEvent::Kind::Arguments:
      require(isOpen, "arguments are inside a call", event.text);
      arguments += event.text;
      break;
    case ToolEvent::Kind::End:
      require(isOpen, "a call ends that has begun");
      require(moefuzz::isJson(arguments), "arguments are JSON", arguments);
      isOpen = false;
      break;
    case ToolEvent::Kind::Error:
      require(!event.text.empty() && &event == &events.back(),
              "an error is the last event");
      break;
    }
  }
  require(!isOpen || events.back().kind == ToolEvent::Kind::Error,
          "a call ends or is an error");
  return 0;
}
