//===- FamilyTemplates.h - Chat templates of model families -----*- C++ -*-===//
//
// Small templates that write reasoning, answers and calls of tools as the
// templates of model families do, in our own words, and the special tokens of
// these models.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_FAMILYTEMPLATES_H
#define MOE_TEST_UNIT_FAMILYTEMPLATES_H

#include <string>
#include <vector>

namespace moetest {

struct FamilyTemplate {
  std::string name; ///< Name of the architecture or model.
  std::string source;
  std::string eos;
  std::vector<std::string> controls; ///< Texts of control tokens.
  bool reasons = true;
  bool tellsTools = true;
  bool takesSeveralCalls = true;
  bool takesTextBesideCall = true;
};

/// Jinja of a conversation whose messages stand between `begin`, the role,
/// `middle` and `end`; `assistant` writes the body of the assistant's message
/// m, and `prompt` what a prompt ends with after the header.
inline std::string
conversation(const std::string &begin, const std::string &middle,
             const std::string &end, const std::string &assistant,
             const std::string &prompt, const std::string &afterTools = "") {
  return "{%- if tools %}{{ '" + begin + "system" + middle +
         "You have tools: ' ~ (tools | tojson) ~ '" + afterTools + end +
         "' }}{%- endif %}{%- for m in messages %}{%- if m.role == 'assistant' "
         "%}{{ '" +
         begin + "assistant" + middle + "' }}" + assistant + "{{ '" + end +
         "' }}{%- else %}{{ '" + begin + "' ~ m.role ~ '" + middle +
         "' ~ m.content ~ '" + end +
         "' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '" +
         begin + "assistant" + middle + "' }}" + prompt + "{%- endif %}";
}

/// Returns the text that a template writes for reasoning and an answer.
inline std::string thought(const std::string &open, const std::string &close,
                           const std::string &otherwise = "") {
  return "{%- if m.reasoning_content %}{{ '" + open +
         "' ~ m.reasoning_content ~ '" + close + "' }}{%- else %}{{ '" +
         otherwise + "' }}{%- endif %}{{ m.content or '' }}";
}

/// A loop over calls: `call` writes c.function.
inline std::string calls(const std::string &call, const std::string &open = "",
                         const std::string &close = "",
                         const std::string &between = "") {
  return "{%- if m.tool_calls %}{{ '" + open +
         "' }}{%- for c in m.tool_calls %}{%- set f = c.function %}" + call +
         "{%- if not loop.last %}{{ '" + between +
         "' }}{%- endif %}{%- endfor %}{{ '" + close + "' }}{%- endif %}";
}

inline std::string jsonCall(const std::string &open, const std::string &close) {
  return "{{ '" + open +
         "{\"name\": \"' ~ f.name ~ '\", \"arguments\": ' ~ (f.arguments | "
         "tojson) ~ '}" +
         close + "' }}";
}

/// Parameters k with values v: `text` for strings, `other` for the rest.
inline std::string parameters(const std::string &text,
                              const std::string &other) {
  return "{%- for k, v in f.arguments | items %}{%- if v is string %}" + text +
         "{%- else %}" + other + "{%- endif %}{%- endfor %}";
}

/// A call as Python writes it, with strings in single quotes as they are,
/// objects as JSON, and all else as Python prints it.
inline std::string keywordCall() {
  return "{%- set n = namespace(all=[]) %}{%- for k, v in f.arguments | items "
         "%}{%- set w = \"'\" ~ v ~ \"'\" if v is string else v | tojson if v "
         "is "
         "mapping else v | string %}{%- set _ = n.all.append(k ~ '=' ~ w) "
         "%}{%- endfor %}{{ f.name ~ '(' ~ n.all | join(', ') ~ ')' }}";
}

inline std::vector<FamilyTemplate> familyTemplates() {
  const std::string chatml = "<|im_start|>", nl = "\\n";
  const std::vector<std::string> im = {"<|im_start|>"};
  const std::string D = "\uFF5CDSML\uFF5C";
  std::vector<FamilyTemplate> all;
  all.push_back(
      {"qwen3",
       conversation(
           chatml, nl, "<|im_end|>\\n",
           thought("<think>\\n", "\\n</think>\\n\\n") +
               calls(jsonCall("<tool_call>\\n", "\\n</tool_call>"), "", "", nl),
           ""),
       "<|im_end|>", im});
  all.push_back({"lfm2",
                 conversation(chatml, nl, "<|im_end|>\\n",
                              "{%- if m.thinking %}{{ '<think>' ~ m.thinking ~ "
                              "'</think>' }}{%- endif %}{{ m.content or '' }}" +
                                  calls(keywordCall(), "<|tool_call_start|>[",
                                        "]<|tool_call_end|>", ", "),
                              ""),
                 "<|im_end|>",
                 {"<|im_start|>", "<|tool_call_start|>", "<|tool_call_end|>"}});
  all.push_back(
      {"apertus",
       conversation("<|", "_start|>", "<|assistant_end|>",
                    "{{ m.content or '' }}" +
                        calls("{{ '{\"' ~ f.name ~ '\": ' ~ (f.arguments | "
                              "tojson) ~ '}' }}",
                              "<|tools_prefix|>[", "]<|tools_suffix|>", ", "),
                    ""),
       "<|assistant_end|>",
       {"<|tools_prefix|>", "<|tools_suffix|>", "<|assistant_start|>",
        "<|user_start|>", "<|system_start|>"},
       /*reasons=*/false});
  all.push_back(
      {"seed_oss",
       conversation(
           "<seed:bos>", nl, "<seed:eos>",
           thought("<seed:think>", "</seed:think>\\n") +
               calls("{{ '<seed:tool_call>\\n<function=' ~ f.name ~ '>\\n' }}" +
                         parameters("{{ '<parameter=' ~ k ~ '>' ~ v ~ "
                                    "'</parameter>\\n' }}",
                                    "{{ '<parameter=' ~ k ~ '>' ~ (v | string) "
                                    "~ '</parameter>\\n' }}") +
                         "{{ '</function>\\n</seed:tool_call>' }}",
                     "", "", nl),
           ""),
       "<seed:eos>",
       {"<seed:bos>"}});
  const std::string marked =
      "{{ '<param name=\"' ~ k ~ '\">' ~ ('<![CDATA[' ~ v "
      "~ ']]>' if '<' in v else v) ~ '</param>' }}";
  all.push_back(
      {"minicpm5",
       conversation(
           chatml, nl, "<|im_end|>\\n",
           thought("<think>\\n", "\\n</think>\\n\\n") +
               calls("{{ '<function name=\"' ~ f.name ~ '\">' }}" +
                         parameters(marked, "{{ '<param name=\"' ~ k ~ '\">' ~ "
                                            "(v | string) ~ '</param>' }}") +
                         "{{ '</function>' }}",
                     "", "", nl),
           ""),
       "<|im_end|>", im});
  const std::string python =
      "{{ '<parameter=' ~ k ~ '>\\n' ~ (v if v is string else v | tojson if v "
      "is mapping or v is sequence else v | string) ~ '\\n</parameter>\\n' }}";
  all.push_back(
      {"qwen35",
       conversation(
           chatml, nl, "<|im_end|>\\n",
           thought("<think>\\n", "\\n</think>\\n\\n",
                   "<think>\\n\\n</think>\\n\\n") +
               calls("{{ '<tool_call>\\n<function=' ~ f.name ~ '>\\n' }}" +
                         parameters(python, python) +
                         "{{ '</function>\\n</tool_call>' }}",
                     "", "", nl),
           "{{ '<think>\\n' }}"),
       "<|im_end|>", im});
  all.push_back(
      {"deepseek3",
       conversation("<\uFF5C", "\uFF5C>", "<\uFF5Cend\uFF5C>",
                    thought("<think>", "</think>", "</think>") +
                        calls("{{ '<\uFF5Ctool\u2581call\u2581begin\uFF5C>' ~ "
                              "f.name ~ '<\uFF5Ctool\u2581sep\uFF5C>' ~ "
                              "(f.arguments | tojson) ~ "
                              "'<\uFF5Ctool\u2581call\u2581end\uFF5C>' }}",
                              "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
                              "<\uFF5Ctool\u2581calls\u2581end\uFF5C>"),
                    "{{ '<think>' }}"),
       "<\uFF5Cend\uFF5C>",
       {"<\uFF5Cuser\uFF5C>", "<\uFF5Cassistant\uFF5C>",
        "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
        "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
        "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
        "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
        "<\uFF5Ctool\u2581sep\uFF5C>"}});
  for (const char *section : {"function_calls", "tool_calls"})
    all.push_back(
        {std::string("deepseek-") + section,
         conversation(
             "<\uFF5C", "\uFF5C>", "<\uFF5Cend\uFF5C>",
             thought("<think>", "</think>", "</think>") +
                 calls("{{ '<" + D + "invoke name=\"' ~ f.name ~ '\">\\n' }}" +
                           parameters("{{ '<" + D +
                                          "parameter name=\"' ~ k ~ '\" "
                                          "string=\"true\">' ~ v ~ '</" +
                                          D + "parameter>\\n' }}",
                                      "{{ '<" + D +
                                          "parameter name=\"' ~ k ~ '\" "
                                          "string=\"false\">' ~ (v | tojson) ~ "
                                          "'</" +
                                          D + "parameter>\\n' }}") +
                           "{{ '</" + D + "invoke>\\n' }}",
                       "\\n\\n<" + D + section + ">\\n",
                       "</" + D + section + ">"),
             "{{ '<think>' }}"),
         "<\uFF5Cend\uFF5C>",
         {"<\uFF5Cuser\uFF5C>", "<\uFF5Cassistant\uFF5C>"}});
  all.push_back(
      {"glm4moe",
       conversation(
           "<|", "|>", "",
           thought("\\n<think>", "</think>\\n", "\\n<think></think>\\n") +
               calls("{{ '\\n<tool_call>' ~ f.name ~ '\\n' }}" +
                     parameters("{{ '<arg_key>' ~ k ~ "
                                "'</arg_key>\\n<arg_value>' ~ v ~ "
                                "'</arg_value>\\n' }}",
                                "{{ '<arg_key>' ~ k ~ "
                                "'</arg_key>\\n<arg_value>' ~ (v | tojson) "
                                "~ '</arg_value>\\n' }}") +
                     "{{ '</tool_call>' }}"),
           ""),
       "<|user|>",
       {"<|assistant|>", "<|system|>"}});
  all.push_back(
      {"kimi-k2",
       conversation("<|im_", "|>", "<|im_end|>",
                    thought("<think>", "</think>") +
                        calls("{{ '<|tool_call_begin|>' ~ c.id ~ "
                              "'<|tool_call_argument_begin|>' ~ (f.arguments | "
                              "tojson) ~ '<|tool_call_end|>' }}",
                              "<|tool_calls_section_begin|>",
                              "<|tool_calls_section_end|>"),
                    ""),
       "<|im_end|>",
       {"<|im_user|>", "<|im_assistant|>", "<|im_system|>",
        "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
        "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
        "<|tool_call_end|>"}});
  auto open = [](const std::string &what) {
    return "<|open|>" + what + "<|sep|>";
  };
  auto close = [](const std::string &what) {
    return "<|close|>" + what + "<|sep|>";
  };
  const std::string argument =
      open("argument key=\"' ~ k ~ '\" type=\"' ~ t ~ '\"") + "' ~ ";
  all.push_back(
      {"kimi-k3",
       conversation(
           "<|open|>message role=\"", "\"<|sep|>",
           close("message") + "<|end_of_msg|>",
           "{{ '" + open("think") + "' ~ (m.reasoning_content or '') ~ '" +
               close("think") + open("response") + "' ~ (m.content or '') ~ '" +
               close("response") + "' }}" +
               calls("{{ '" +
                         open("call tool=\"' ~ f.name ~ '\" index=\"' ~ "
                              "loop.index ~ '\"") +
                         "' }}{%- for k, v in f.arguments | items %}{%- set t "
                         "= 'string' if v is string else 'boolean' if v is "
                         "boolean else 'number' if v is number else 'null' if "
                         "v is none else 'object' if v is mapping else "
                         "'array' %}{{ '" +
                         argument + "(v if v is string else v | tojson) ~ '" +
                         close("argument") + "' }}{%- endfor %}{{ '" +
                         close("call") + "' }}",
                     open("tools"), close("tools")),
           "{{ '" + open("think") + "' }}"),
       "<|end_of_msg|>",
       {"<|open|>", "<|close|>", "<|sep|>"}});
  all.push_back(
      {"minimax-m2",
       conversation(
           "]~b]", nl, "[e~[\\n",
           thought("<think>\\n", "\\n</think>\\n\\n") +
               calls("{{ '<invoke name=\"' ~ f.name ~ '\">\\n' }}" +
                         parameters("{{ '<parameter name=\"' ~ k ~ '\">' ~ v "
                                    "~ '</parameter>\\n' }}",
                                    "{{ '<parameter name=\"' ~ k ~ '\">' ~ (v "
                                    "| tojson) ~ '</parameter>\\n' }}") +
                         "{{ '</invoke>\\n' }}",
                     "\\n<minimax:tool_call>\\n", "</minimax:tool_call>"),
           "{{ '<think>\\n' }}"),
       "[e~[",
       {"]~b]"}});
  const std::string N = "]<]minimax[>[";
  const std::string nested =
      "{%- macro value(v) %}{%- if v is mapping %}{%- for k, x in v | items "
      "%}{{ '" +
      N + "<' ~ k ~ '>' ~ value(x) ~ '" + N +
      "</' ~ k ~ '>' }}{%- endfor %}{%- elif v is string %}{{ v }}{%- elif v "
      "is none %}{%- elif v is sequence %}{%- for x in v %}{{ '" +
      N + "<item>' ~ value(x) ~ '" + N +
      "</item>' }}{%- endfor %}{%- else %}{{ v | tojson }}{%- endif %}{%- "
      "endmacro %}";
  all.push_back(
      {"minimax-m3",
       nested + conversation(
                    "]~b]", nl, "[e~[\\n",
                    thought("<mm:think>", "</mm:think>", "</mm:think>") +
                        calls("{{ '" + N +
                                  "<invoke name=\"' ~ f.name ~ '\">' }}{%- for "
                                  "k, v in f.arguments | items %}{{ '" +
                                  N + "<' ~ k ~ '>' ~ value(v) ~ '" + N +
                                  "</' ~ k ~ '>' }}{%- endfor %}{{ '" + N +
                                  "</invoke>\\n' }}",
                              N + "<tool_call>\\n", N + "</tool_call>"),
                    "", " Write <tool_call> to call one."),
       "[e~[",
       {"]~b]", N}});
  all.push_back(
      {"gpt-oss",
       "{%- if tools %}{{ '<|start|>developer<|message|>' ~ (tools | tojson) "
       "~ '<|end|>' }}{%- endif %}{%- for m in messages %}{%- if m.role == "
       "'assistant' %}{%- if m.reasoning_content %}{{ "
       "'<|start|>assistant<|channel|>analysis<|message|>' ~ "
       "m.reasoning_content ~ '<|end|>' }}{%- endif %}{%- if m.tool_calls "
       "%}{%- if m.content %}{{ "
       "'<|start|>assistant<|channel|>commentary<|message|>' ~ m.content ~ "
       "'<|end|>' }}{%- endif %}{{ '<|start|>assistant to=functions.' ~ "
       "m.tool_calls[0].function.name ~ '<|channel|>commentary "
       "<|constrain|>json<|message|>' ~ (m.tool_calls[0].function.arguments | "
       "tojson) ~ '<|call|>' }}{%- else %}{{ "
       "'<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ "
       "'<|return|>' }}{%- endif %}{%- else %}{{ '<|start|>' ~ m.role ~ "
       "'<|message|>' ~ m.content ~ '<|end|>' }}{%- endif %}{%- endfor %}{%- "
       "if "
       "add_generation_prompt %}{{ '<|start|>assistant' }}{%- endif %}",
       "<|return|>",
       {"<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|end|>",
        "<|call|>"},
       true,
       true,
       /*takesSeveralCalls=*/false});
  const std::string header = "<|start|>assistant to=";
  all.push_back(
      {"muse-glimmer",
       "{%- if tools %}{{ '<|start|>system<|message|>' ~ (tools | tojson) ~ "
       "'<|eot|>' }}{%- endif %}{%- for m in messages %}{%- if m.role == "
       "'assistant' %}{%- if m.reasoning_content %}{{ '" +
           header +
           "self<|message|>' ~ m.reasoning_content ~ '<|eom|>' }}{%- endif "
           "%}{%- if m.content %}{{ '" +
           header +
           "user<|message|>' ~ m.content ~ ('<|eom|>' if m.tool_calls else "
           "'<|eot|>') }}{%- endif %}{%- for c in m.tool_calls or [] %}{%- set "
           "f = c.function %}{{ '" +
           header +
           "' ~ f.name ~ '<|message|><atem:function_calls>\\n<atem:invoke "
           "name=\"' ~ f.name ~ '\">\\n' }}" +
           parameters("{{ '<atem:parameter name=\"' ~ k ~ '\">' ~ v ~ "
                      "'</atem:parameter>\\n' }}",
                      "{{ '<atem:parameter name=\"' ~ k ~ '\">' ~ (v | "
                      "tojson) ~ '</atem:parameter>\\n' }}") +
           "{{ '</atem:invoke>\\n</atem:function_calls>' ~ ('<|eot|>' if "
           "loop.last else '<|eom|>') }}{%- endfor %}{%- else %}{{ "
           "'<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ '<|eot|>' }}{%- "
           "endif %}{%- endfor %}{%- if add_generation_prompt %}{{ "
           "'<|start|>assistant' }}{%- endif %}",
       "<|eot|>",
       {"<|start|>", "<|message|>", "<|eom|>"}});
  all.push_back(
      {"mistral-nemo",
       "{%- for m in messages %}{%- if m.role == 'user' %}{%- if tools %}{{ "
       "'[AVAILABLE_TOOLS]' ~ (tools | tojson) ~ '[/AVAILABLE_TOOLS]' }}{%- "
       "endif %}{{ '[INST]' ~ m.content ~ '[/INST]' }}{%- elif m.tool_calls "
       "%}{{ '[TOOL_CALLS][' }}{%- for c in m.tool_calls %}{%- if c.id | "
       "length != 9 %}{{ raise_exception('ids have nine letters') }}{%- endif "
       "%}{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' ~ "
       "(c.function.arguments | tojson) ~ ', \"id\": \"' ~ c.id ~ '\"}' ~ (']' "
       "if loop.last else ', ') }}{%- endfor %}{{ '</s>' }}{%- else %}{{ "
       "m.content ~ '</s>' }}{%- endif %}{%- endfor %}",
       "</s>",
       {"[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
        "[/AVAILABLE_TOOLS]"},
       /*reasons=*/false,
       true,
       true,
       /*takesTextBesideCall=*/false});
  all.push_back(
      {"ministral3",
       "{%- if tools %}{{ '[AVAILABLE_TOOLS]' ~ (tools | tojson) ~ "
       "'[/AVAILABLE_TOOLS]' }}{%- endif %}{%- for m in messages %}{%- if "
       "m.role == 'user' %}{{ '[INST]' ~ m.content ~ '[/INST]' }}{%- else "
       "%}{%- if m.content is string %}{{ m.content }}{%- else %}{%- for p in "
       "m.content or [] %}{{ '[THINK]' ~ p.thinking ~ '[/THINK]' if p.type == "
       "'thinking' else p.text }}{%- endfor %}{%- endif %}{%- for c in "
       "m.tool_calls or [] %}{{ '[TOOL_CALLS]' ~ c.function.name ~ '[ARGS]' ~ "
       "(c.function.arguments | tojson) }}{%- endfor %}{{ '</s>' }}{%- endif "
       "%}{%- endfor %}",
       "</s>",
       {"[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]",
        "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"}});
  all.push_back(
      {"cohere2moe",
       conversation("<|START_OF_TURN_TOKEN|><|", "|>", "<|END_OF_TURN_TOKEN|>",
                    "{%- if m.reasoning_content %}{{ '<|START_THINKING|>' ~ "
                    "m.reasoning_content ~ '<|END_THINKING|>' }}{%- endif "
                    "%}{%- if m.content %}{{ '<|START_TEXT|>' ~ m.content ~ "
                    "'<|END_TEXT|>' }}{%- endif %}{%- if m.tool_calls %}{{ "
                    "'<|START_ACTION|>[\\n' }}{%- for c in m.tool_calls %}{{ "
                    "'    {\"tool_call_id\": \"' ~ loop.index0 ~ '\", "
                    "\"tool_name\": \"' ~ c.function.name ~ '\", "
                    "\"parameters\": ' ~ (c.function.arguments | tojson) ~ '}' "
                    "~ ('' if loop.last else ',') ~ '\\n' }}{%- endfor %}{{ "
                    "']<|END_ACTION|>' }}{%- endif %}",
                    "{{ '<|START_THINKING|>' }}"),
       "<|END_OF_TURN_TOKEN|>",
       {"<|START_OF_TURN_TOKEN|>", "<|user|>", "<|assistant|>",
        "<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>",
        "<|END_TEXT|>", "<|START_ACTION|>", "<|END_ACTION|>"}});
  auto hy = [](const std::string &name) { return "<" + name + ":opensource>"; };
  all.push_back(
      {"hy_v3",
       conversation(
           "<\uFF5C", ":opensource\uFF5C>", "<\uFF5Ceos:opensource\uFF5C>",
           "{{ '" + hy("think") + "' ~ (m.reasoning_content or '') ~ '" +
               hy("/think") + "' ~ (m.content or '') }}" +
               calls("{{ '" + hy("tool_call") + "' ~ f.name ~ '" +
                         hy("tool_sep") + "\\n' }}" +
                         parameters(
                             "{{ '" + hy("arg_key") + "' ~ k ~ '" +
                                 hy("/arg_key") + "\\n" + hy("arg_value") +
                                 "' ~ v ~ '" + hy("/arg_value") + "\\n' }}",
                             "{{ '" + hy("arg_key") + "' ~ k ~ '" +
                                 hy("/arg_key") + "\\n" + hy("arg_value") +
                                 "' ~ (v | tojson) ~ '" + hy("/arg_value") +
                                 "\\n' }}") +
                         "{{ '" + hy("/tool_call") + "\\n' }}",
                     hy("tool_calls") + "\\n", hy("/tool_calls")),
           "{{ '" + hy("think") + "' }}"),
       "<\uFF5Ceos:opensource\uFF5C>",
       {hy("think"), hy("/think"), hy("tool_calls"), hy("/tool_calls"),
        hy("tool_call"), hy("/tool_call"), hy("tool_sep"), hy("arg_key"),
        hy("/arg_key"), hy("arg_value"), hy("/arg_value")}});
  const std::string Q = "<|\"|>";
  all.push_back(
      {"gemma4",
       "{%- macro value(v) %}{%- if v is string %}{{ '" + Q + "' ~ v ~ '" + Q +
           "' }}{%- elif v is mapping %}{{ '{' }}{%- for k, x in v | items "
           "%}{{ k ~ ':' ~ value(x) }}{{ '' if loop.last else ',' }}{%- endfor "
           "%}{{ '}' }}{%- elif v is none or v is boolean or v is number %}{{ "
           "v | tojson }}{%- else %}{{ '[' }}{%- for x in v %}{{ value(x) }}{{ "
           "'' if loop.last else ',' }}{%- endfor %}{{ ']' }}{%- endif %}{%- "
           "endmacro %}" +
           conversation("<|turn>", nl, "<turn|>\\n",
                        thought("<|channel>thought\\n", "<channel|>") +
                            calls("{{ '<|tool_call>call:' ~ f.name ~ "
                                  "value(f.arguments) ~ '<tool_call|>' }}"),
                        "{%- if enable_thinking is defined and not "
                        "enable_thinking %}{{ "
                        "'<|channel>thought\\n<channel|>' }}{%- endif %}"),
       "<turn|>",
       {"<|turn>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
        Q}});
  all.push_back(
      {"llama",
       conversation("<|start_header_id|>", "<|end_header_id|>\\n\\n",
                    "<|eot_id|>",
                    "{%- if m.tool_calls %}{%- if m.tool_calls | length != 1 "
                    "%}{{ raise_exception('one call at a time') }}{%- endif "
                    "%}{{ '{\"name\": \"' ~ m.tool_calls[0].function.name ~ "
                    "'\", \"parameters\": ' ~ "
                    "(m.tool_calls[0].function.arguments | tojson) ~ '}' "
                    "}}{%- else %}{{ m.content }}{%- endif %}",
                    ""),
       "<|eot_id|>",
       {"<|start_header_id|>", "<|end_header_id|>"},
       /*reasons=*/false,
       true,
       /*takesSeveralCalls=*/false,
       /*takesTextBesideCall=*/false});
  // Reasoning, answer and calls are messages of their own.
  const std::string begin = "<|begin|>assistant";
  all.push_back(
      {"solar",
       "{%- if tools %}{{ '<|begin|>system<|content|>' ~ (tools | tojson) ~ "
       "'<|end|>' }}{%- endif %}{%- for m in messages %}{%- if m.role == "
       "'assistant' %}{%- if m.reasoning %}{{ '" +
           begin +
           "<|think|>' ~ m.reasoning ~ '<|end|>' }}{%- endif %}{%- if "
           "m.tool_calls %}" +
           calls("{{ '<|tool_call:begin|>' ~ c.id ~ '<|tool_call:name|>' ~ "
                 "f.name ~ '<|tool_call:args|>' ~ (f.arguments | tojson) ~ "
                 "'<|tool_call:end|>' }}",
                 begin + "<|tool_calls|>", "<|calls|>") +
           "{%- else %}{{ '" + begin +
           "<|content|>' ~ m.content ~ '<|end|>' }}{%- endif %}{%- else %}{{ "
           "'<|begin|>' ~ m.role ~ '<|content|>' ~ m.content ~ '<|end|>' "
           "}}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '" +
           begin + "' }}{%- endif %}",
       "<|flush|>",
       {"<|begin|>", "<|content|>", "<|think|>", "<|end|>", "<|tool_calls|>",
        "<|calls|>", "<|tool_call:begin|>", "<|tool_call:name|>",
        "<|tool_call:args|>", "<|tool_call:end|>"},
       true,
       true,
       true,
       /*takesTextBesideCall=*/false});
  // The prompt begins the mark of the answer or of the first call.
  all.push_back(
      {"functionary",
       conversation("<|start_header_id|>", "<|end_header_id|>\\n\\n",
                    "<|eot_id|>",
                    "{%- if m.content %}{{ '>>>all\\n' ~ m.content }}{%- endif "
                    "%}{%- for c in m.tool_calls or [] %}{{ '>>>' + "
                    "c.function.name + '\\n' + c.function.arguments }}{%- "
                    "endfor %}",
                    "{{ '>>>' }}"),
       "<|eot_id|>",
       {"<|start_header_id|>", "<|end_header_id|>"},
       /*reasons=*/false});
  // A call is a message of another role behind that of the assistant.
  all.push_back(
      {"gigachat3",
       conversation("", "<|role_sep|>\\n", "<|message_sep|>\\n\\n",
                    "{{ m.content or '' }}{%- if m.tool_calls %}{%- set f = "
                    "m.tool_calls[0].function %}" +
                        jsonCall("<|message_sep|>\\n\\nfunction "
                                 "call<|role_sep|>\\n",
                                 "") +
                        "{%- endif %}",
                    ""),
       "</s>",
       {"<|role_sep|>", "<|message_sep|>"},
       /*reasons=*/false,
       true,
       /*takesSeveralCalls=*/false});
  // The tools and the date are texts, and a word marks the list of calls.
  all.push_back(
      {"firefunction",
       "{{ '<|start_header_id|>system<|end_header_id|>\\n\\nTools: ' + "
       "functions + ' Today is ' + datetime + '<|eot_id|>' }}{%- for m in "
       "messages %}{{ '<|start_header_id|>' ~ m.role ~ "
       "'<|end_header_id|>\\n\\n' ~ (m.content or '') }}" +
           calls(jsonCall("", ""), " functools[", "]", ", ") +
           "{{ '<|eot_id|>' }}{%- endfor %}{{ "
           "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}",
       "<|eot_id|>",
       {"<|start_header_id|>", "<|end_header_id|>"},
       /*reasons=*/false});
  return all;
}

} // namespace moetest

#endif // MOE_TEST_UNIT_FAMILYTEMPLATES_H
