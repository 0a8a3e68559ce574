#include "runtime/chat/ToolFormat.h"

#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>

namespace moert {

using Body = ToolFormat::Body;

namespace {
/// A form, and texts that a description of it has: both of them.
struct KnownFormat {
  std::string_view sign, otherSign;
  ToolFormat format;
  /// Whether `sign` is a control token of the model.
  bool isKnownByToken = false;
};

/// DeepSeek V3.2 and V4, whose sections have different names.
ToolFormat dsmlFormat(std::string name, const std::string &section) {
  const std::string mark = "\uFF5CDSML\uFF5C";
  std::map<std::string, std::string> attributes;
  for (const char *type :
       {"integer", "number", "boolean", "null", "object", "array"})
    attributes[type] = " string=\"false\"";
  attributes["string"] = " string=\"true\"";
  return {.name = std::move(name),
          .body = Body::Tagged,
          .sectionOpen = "<" + mark + section + ">\n",
          .sectionClose = "</" + mark + section + ">",
          .open = "<" + mark + "invoke name=\"",
          .close = "</" + mark + "invoke>\n",
          .nameClose = "\">\n",
          .parameterOpen = "<" + mark + "parameter name=\"",
          .parameterNameClose = "\"",
          .valueOpen = ">",
          .parameterClose = "</" + mark + "parameter>\n",
          .typeAttributes = std::move(attributes)};
}

/// A form whose signs are a part of another's comes after it.
const std::vector<KnownFormat> &knownFormats() {
  static const std::vector<KnownFormat> all = {
      {"\uFF5CDSML\uFF5Ctool_calls", "",
       dsmlFormat("deepseek-v4", "tool_calls")},
      {"\uFF5CDSML\uFF5C", "", dsmlFormat("deepseek-v3.2", "function_calls")},
      // V3 and R1: JSON between fences.
      {"<\uFF5Ctool\u2581sep\uFF5C>",
       "```json",
       {.name = "deepseek-v3",
        .body = Body::NamedJson,
        .sectionOpen = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
        .sectionClose = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
        .open = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function"
                "<\uFF5Ctool\u2581sep\uFF5C>",
        .close = "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>",
        .between = "\n",
        .nameClose = "\n```json\n"}},
      {"<\uFF5Ctool\u2581sep\uFF5C>",
       "",
       {.name = "deepseek-v3.1",
        .body = Body::NamedJson,
        .sectionOpen = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
        .sectionClose = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
        .open = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
        .close = "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
        .nameClose = "<\uFF5Ctool\u2581sep\uFF5C>"}},
      {"<|tool_call_argument_begin|>",
       "",
       {.name = "kimi-k2",
        .body = Body::NamedJson,
        .sectionOpen = "<|tool_calls_section_begin|>",
        .sectionClose = "<|tool_calls_section_end|>",
        .open = "<|tool_call_begin|>",
        .close = "<|tool_call_end|>",
        .nameClose = "<|tool_call_argument_begin|>",
        .nameIsId = true}},
      // A message to a function, in the one of its spellings that is left of
      // all (ReplySplitter.h). <|call|> ends the generation.
      {"<|channel|>",
       "to=",
       {.name = "gpt-oss",
        .body = Body::NamedJson,
        .open = "<|channel|>commentary to=functions.",
        .close = "<|call|>",
        .nameClose = "<|message|>"}},
      // Mistral since version 11 of its tokenizer.
      {"[TOOL_CALLS]",
       "[ARGS]",
       {.name = "mistral-args",
        .body = Body::NamedJson,
        .open = "[TOOL_CALLS]",
        .nameClose = "[ARGS]",
        .idOpen = "[CALL_ID]"}},
      // Mistral before.
      {"[TOOL_CALLS]",
       "",
       {.name = "mistral-list",
        .body = Body::JsonList,
        .sectionOpen = "[TOOL_CALLS]",
        .sectionClose = "]",
        .between = ", ",
        .idKey = "id"}},
      // Granite 3, whose template tells of its form in words alone.
      {"<|tool_call|>",
       "JSON list",
       {.name = "granite-3",
        .body = Body::JsonList,
        .sectionOpen = "<|tool_call|>",
        .sectionClose = "]",
        .between = ", "}},
      {"<minimax:tool_call>",
       "",
       {.name = "minimax-m2",
        .body = Body::Tagged,
        .sectionOpen = "<minimax:tool_call>\n",
        .sectionClose = "</minimax:tool_call>",
        .open = "<invoke name=\"",
        .close = "</invoke>\n",
        .nameClose = "\">\n",
        .parameterOpen = "<parameter name=\"",
        .parameterNameClose = "\">",
        .parameterClose = "</parameter>\n"}},
      {"<arg_key>",
       "<tool_call>",
       {.name = "glm-4.5",
        .body = Body::Tagged,
        .open = "<tool_call>",
        .close = "</tool_call>",
        .between = "\n",
        .nameClose = "\n",
        .parameterOpen = "<arg_key>",
        .parameterNameClose = "</arg_key>",
        .valueOpen = "\n<arg_value>",
        .parameterClose = "</arg_value>\n"}},
      // Qwen3-Coder, Qwen3.5.
      {"<function=",
       "<tool_call>",
       {.name = "qwen3-coder",
        .body = Body::Tagged,
        .sectionOpen = "<tool_call>\n",
        .sectionClose = "\n</tool_call>",
        .open = "<function=",
        .close = "</function>",
        .between = "\n</tool_call>\n<tool_call>\n",
        .nameClose = ">\n",
        .parameterOpen = "<parameter=",
        .parameterNameClose = ">\n",
        .parameterClose = "\n</parameter>\n",
        .values = ToolFormat::Values::Python}},
      // Gemma 4.
      {"<|tool_call>call:",
       "",
       {.name = "gemma4",
        .body = Body::NamedBare,
        .open = "<|tool_call>call:",
        .close = "<tool_call|>"}},
      // Hermes, Qwen 2.5, Qwen 3.
      {"<tool_call>",
       "",
       {.name = "hermes",
        .body = Body::Json,
        .open = "<tool_call>\n",
        .close = "\n</tool_call>",
        .between = "\n"}},
      // Llama 3.1 to 3.3.
      {"<|python_tag|>",
       "",
       {.name = "llama-3.1",
        .body = Body::Json,
        .open = "<|python_tag|>",
        .argumentsKey = "parameters",
        .isBare = true}},
      // LFM2, whose templates write a list of tools and nothing else.
      {"<|tool_call_start|>",
       "",
       {.name = "lfm2",
        .body = Body::Keywords,
        .sectionOpen = "<|tool_call_start|>[",
        .sectionClose = "]<|tool_call_end|>",
        .close = ")",
        .between = ", ",
        .nameClose = "("},
       /*isKnownByToken=*/true},
  };
  return all;
}
} // namespace

std::string ToolFormat::closeOf(std::string_view parameter) const {
  std::string mark = parameterClose;
  if (size_t at = mark.find(kKey); at != mark.npos)
    mark.replace(at, 1, parameter);
  return mark;
}

std::string ToolFormat::attributesOf(const std::string &type) const {
  auto it = typeAttributes.find(type);
  return it == typeAttributes.end() ? std::string() : it->second;
}

std::vector<ToolFormat> knownToolFormats(std::string_view text,
                                         const Tokenizer &tokenizer) {
  auto hasToken = [&](std::string_view name) {
    auto tokens = tokenizer.encode(
        name, {.addBos = false, .addEos = false, .startsText = false});
    return tokens && tokens->size() == 1 &&
           tokenizer.isControl(tokens->front());
  };
  std::vector<ToolFormat> found;
  for (const KnownFormat &known : knownFormats())
    if (known.isKnownByToken ? hasToken(known.sign)
                             : text.find(known.sign) != text.npos &&
                                   text.find(known.otherSign) != text.npos)
      found.push_back(known.format);
  return found;
}

const ToolFormat *toolFormatNamed(std::string_view name) {
  for (const KnownFormat &known : knownFormats())
    if (known.format.name == name)
      return &known.format;
  return nullptr;
}

std::string withControls(std::string_view text, const Tokenizer &tokenizer) {
  std::string result;
  while (!text.empty()) {
    // A placeholder for a name or a number is not text of the model.
    const size_t place = text.find_first_of("\x01\x02");
    auto tokens = tokenizer.encode(
        text.substr(0, place),
        {.addBos = false, .addEos = false, .startsText = false});
    for (int32_t token : tokens ? *tokens : std::vector<int32_t>()) {
      if (tokenizer.isEndOfGeneration(token))
        return result;
      const std::string bytes(tokenizer.tokenBytes(token));
      result += tokenizer.isControl(token) ? controlBytes(bytes) : bytes;
    }
    if (place == text.npos)
      break;
    result += text[place];
    text.remove_prefix(place + 1);
  }
  return result;
}

ToolFormat withControls(ToolFormat format, const Tokenizer &tokenizer) {
  for (std::string *mark :
       {&format.sectionOpen, &format.sectionClose, &format.open, &format.close,
        &format.between, &format.nameClose, &format.headEnd, &format.attributes,
        &format.idOpen, &format.idClose, &format.parameterOpen,
        &format.parameterNameClose, &format.valueOpen, &format.parameterClose,
        &format.textOpen, &format.textClose})
    *mark = withControls(*mark, tokenizer);
  return format;
}

} // namespace moert
