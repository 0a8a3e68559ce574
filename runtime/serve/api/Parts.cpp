#include "runtime/serve/api/Parts.h"

#include "runtime/serve/api/ApiSettings.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct Medium {
  std::string_view type, kind;
};
constexpr Medium kMedia[] = {
    {"image", "image"},       {"image_url", "image"},
    {"input_image", "image"}, {"image_file", "image"},
    {"audio", "audio"},       {"input_audio", "audio"},
    {"audio_url", "audio"},   {"output_audio", "audio"},
    {"video", "video"},       {"input_video", "video"},
    {"video_url", "video"},   {"file", "file"},
    {"input_file", "file"},   {"container_upload", "file"}};

std::string textOf(const Field &field) {
  return field.isText() ? *field.text() : "";
}

/// Whether a text is data that is encoded, such as an image: long, and without
/// white space.
bool isEncoded(const std::string &text) {
  constexpr size_t least = 256;
  return text.size() >= least &&
         std::ranges::none_of(text, [](char c) { return isspace(uint8_t(c)); });
}

Json withoutData(const Json &json) {
  if (json.is_string() && isEncoded(json.get_ref<const std::string &>()))
    return "...";
  if (!json.is_structured())
    return json;
  Json result = json;
  for (Json &item : result)
    item = withoutData(item);
  return result;
}

/// Adds text that is not a plain part: on lines of its own.
void addBlock(Content &content, const std::string &text) {
  if (!content.text.empty() && !text.empty() && content.text.back() != '\n')
    content.text += '\n';
  content.text += text;
}

void addUnread(const Field &part, std::string_view kind, std::string name,
               Content &content) {
  addBlock(content, omitted(name.empty() ? std::string(kind)
                                         : fmt::format("{} {}", kind, name)));
  if (content.unread.place.empty())
    content.unread = {.place = (part["type"] ? part["type"] : part).path(),
                      .kind = std::string(kind)};
}

/// Adds another content on lines of its own.
void addContent(Content inner, Content &content) {
  addBlock(content, inner.text);
  content.reasoning += inner.reasoning;
  if (content.unread.place.empty())
    content.unread = std::move(inner.unread);
}

/// Anthropic's document: a source that is text, or a file.
void readDocument(const Field &part, Content &content) {
  for (const char *name : {"title", "context"})
    addBlock(content, textOf(part[name]));
  Field source = part["source"];
  if (!source.isObject())
    return addUnread(part, "document", textOf(part["title"]), content);
  if (source["type"].isText() && source["type"].json() == "text")
    addBlock(content, textOf(source["data"]));
  else if (Field inner = source["content"])
    addContent(readContent(inner), content);
  else
    addUnread(part, "document", textOf(part["title"]), content);
}

void readSearchResult(const Field &part, Content &content) {
  for (const char *name : {"title", "source"})
    addBlock(content, textOf(part[name]));
  addContent(readContent(part["content"]), content);
}

/// A thought: a text, or a list of texts.
std::string thoughtOf(const Field &part) {
  for (const char *name : {"thinking", "reasoning", "text", "summary"})
    if (Field field = part[name])
      return readContent(field).text;
  return "";
}

std::string fileName(const Field &part) {
  for (const Field &place : {part, part["file"]})
    if (place.isObject())
      if (std::string name = textOf(place["filename"]); !name.empty())
        return name;
  return "";
}
} // namespace

std::string omitted(std::string_view what) {
  return fmt::format("[{} omitted: this model reads text only]", what);
}

std::string itemText(const Field &item) {
  Json shown = Json::object();
  std::string type = "item";
  if (item.isObject()) {
    if (item["type"].isText())
      type = textOf(item["type"]);
    for (const auto &[key, value] : item.json().items())
      if (key != "type" && key != "id" && key != "status" &&
          key != "cache_control" && key != "signature" && !value.is_null())
        shown[key] = withoutData(value);
  } else if (item) {
    shown = withoutData(item.json());
  }
  return fmt::format("[{}]\n{}\n[/{}]", type,
                     shown.dump(-1, ' ', false, Json::error_handler_t::replace),
                     type);
}

void readPart(const Field &part, Content &content) {
  if (part.isText()) {
    content.text += *part.text();
    return;
  }
  if (!part.object())
    return;
  const std::string type = part["type"].text().value_or("");
  for (const Medium &medium : kMedia)
    if (type == medium.type)
      return addUnread(part, medium.kind,
                       medium.kind == "file" ? fileName(part) : "", content);
  if (type == "document")
    return readDocument(part, content);
  if (type == "search_result")
    return readSearchResult(part, content);
  if (type == "thinking" || type == "reasoning" || type == "reasoning_text" ||
      type == "summary_text") {
    content.reasoning += thoughtOf(part);
    return;
  }
  // Only its author can read encrypted reasoning.
  if (type == "redacted_thinking")
    return;
  if (type == "tool_reference")
    return addBlock(content, "tool " + textOf(part["tool_name"]));
  for (const char *name : {"text", "refusal"})
    if (part[name].isText()) {
      content.text += *part[name].text();
      return;
    }
  if (type == "text" || type.ends_with("_text")) {
    (void)part["text"].required().text();
    return;
  }
  (void)part["type"].required();
  part["type"].note("is unknown: the part is read as text");
  addBlock(content, itemText(part));
}

Content readContent(const Field &content) {
  Content result;
  if (content.isList()) {
    for (const Field &part : content.list(kMostMessages))
      readPart(part, result);
  } else if (content) {
    if (content.isText())
      result.text = *content.text();
    else
      content.mustBe("a string or a list of parts");
  }
  return result;
}

} // namespace moert
