#include "runtime/chat/ToolFormat.h"

namespace moert {

using Body = ToolFormat::Body;

namespace {
/// A template's form is the first one whose signs it has: a form whose signs
/// are a part of another's comes after it.
constexpr ToolFormat kFormats[] = {
    {.name = "deepseek-v3.2",
     .sign = "\uFF5CDSML\uFF5C",
     .body = Body::Tagged,
     .sectionOpen = "<\uFF5CDSML\uFF5Cfunction_calls>\n",
     .sectionClose = "</\uFF5CDSML\uFF5Cfunction_calls>",
     .open = "<\uFF5CDSML\uFF5Cinvoke name=\"",
     .close = "</\uFF5CDSML\uFF5Cinvoke>\n",
     .nameClose = "\">\n",
     .parameterOpen = "<\uFF5CDSML\uFF5Cparameter name=\"",
     .parameterNameClose = "\"",
     .valueOpen = ">",
     .parameterClose = "</\uFF5CDSML\uFF5Cparameter>\n",
     .stringAttribute = " string=\"true\"",
     .otherAttribute = " string=\"false\""},
    // V3 and R1: JSON between fences.
    {.name = "deepseek-v3",
     .sign = "<\uFF5Ctool\u2581sep\uFF5C>",
     .otherSign = "```json",
     .body = Body::NamedJson,
     .sectionOpen = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
     .sectionClose = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     .open = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function"
             "<\uFF5Ctool\u2581sep\uFF5C>",
     .close = "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>",
     .between = "\n",
     .nameClose = "\n```json\n"},
    {.name = "deepseek-v3.1",
     .sign = "<\uFF5Ctool\u2581sep\uFF5C>",
     .body = Body::NamedJson,
     .sectionOpen = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
     .sectionClose = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     .open = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
     .close = "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
     .nameClose = "<\uFF5Ctool\u2581sep\uFF5C>"},
    {.name = "kimi-k2",
     .sign = "<|tool_call_argument_begin|>",
     .body = Body::NamedJson,
     .sectionOpen = "<|tool_calls_section_begin|>",
     .sectionClose = "<|tool_calls_section_end|>",
     .open = "<|tool_call_begin|>",
     .close = "<|tool_call_end|>",
     .nameClose = "<|tool_call_argument_begin|>",
     .nameIsId = true},
    // A message to a function. <|call|> ends the generation.
    {.name = "gpt-oss",
     .sign = "<|channel|>",
     .otherSign = "to=",
     .body = Body::NamedJson,
     .open = "<|channel|>commentary to=functions.",
     .close = "<|call|>",
     .otherOpen = " to=functions.",
     .nameClose = "<|message|>",
     .dropped = "<|channel|>commentary<|message|>"},
    // Mistral since version 11 of its tokenizer.
    {.name = "mistral-args",
     .sign = "[TOOL_CALLS]",
     .otherSign = "[ARGS]",
     .body = Body::NamedJson,
     .open = "[TOOL_CALLS]",
     .nameClose = "[ARGS]"},
    // Mistral before.
    {.name = "mistral-list",
     .sign = "[TOOL_CALLS]",
     .body = Body::JsonList,
     .sectionOpen = "[TOOL_CALLS]",
     .sectionClose = "]",
     .between = ", "},
    {.name = "minimax-m2",
     .sign = "<minimax:tool_call>",
     .body = Body::Tagged,
     .sectionOpen = "<minimax:tool_call>\n",
     .sectionClose = "</minimax:tool_call>",
     .open = "<invoke name=\"",
     .close = "</invoke>\n",
     .nameClose = "\">\n",
     .parameterOpen = "<parameter name=\"",
     .parameterNameClose = "\">",
     .parameterClose = "</parameter>\n"},
    {.name = "glm-4.5",
     .sign = "<arg_key>",
     .otherSign = "<tool_call>",
     .body = Body::Tagged,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .between = "\n",
     .nameClose = "\n",
     .parameterOpen = "<arg_key>",
     .parameterNameClose = "</arg_key>",
     .valueOpen = "\n<arg_value>",
     .parameterClose = "</arg_value>\n"},
    // Qwen3-Coder, Qwen3.5.
    {.name = "qwen3-coder",
     .sign = "<function=",
     .otherSign = "<tool_call>",
     .body = Body::Tagged,
     .sectionOpen = "<tool_call>\n",
     .sectionClose = "\n</tool_call>",
     .open = "<function=",
     .close = "</function>",
     .between = "\n</tool_call>\n<tool_call>\n",
     .nameClose = ">\n",
     .parameterOpen = "<parameter=",
     .parameterNameClose = ">\n",
     .parameterClose = "\n</parameter>\n"},
    // Hermes, Qwen 2.5, Qwen 3.
    {.name = "hermes",
     .sign = "<tool_call>",
     .body = Body::Json,
     .open = "<tool_call>\n",
     .close = "\n</tool_call>",
     .between = "\n"},
    // Llama 3.1 to 3.3.
    {.name = "llama-3.1",
     .sign = "<|python_tag|>",
     .body = Body::Json,
     .open = "<|python_tag|>",
     .argumentsKey = "parameters",
     .isBare = true},
};
} // namespace

const ToolFormat *toolFormatOf(std::string_view source) {
  for (const ToolFormat &format : kFormats)
    if (source.find(format.sign) != source.npos &&
        source.find(format.otherSign) != source.npos)
      return &format;
  return nullptr;
}

const ToolFormat *toolFormatNamed(std::string_view name) {
  for (const ToolFormat &format : kFormats)
    if (format.name == name)
      return &format;
  return nullptr;
}

} // namespace moert
