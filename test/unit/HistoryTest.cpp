// Random conversations through templates of many habits: all text of a request
// is in the prompt, once and in its order.
#include "runtime/chat/History.h"

#include "ApiTestSupport.h"
#include "FamilyTemplates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <random>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

/// A template in the form of ChatML, with what stands before and in the loop.
std::string chatMl(const std::string &guard, const std::string &before = "") {
  return before + "{%- for m in messages %}" + guard +
         "{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}"
         "{%- for c in m.tool_calls or [] %}"
         "{{ '<call ' + c.function.name + '>' }}"
         "{%- for k, v in c.function.arguments | items %}"
         "{{ k ~ '=' ~ v ~ ';' }}{%- endfor %}{{ '</call>' }}{%- endfor %}"
         "{{ '<|im_end|>\\n' }}{%- endfor %}"
         "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
         "{%- endif %}";
}

struct NamedTemplate {
  std::string name;
  std::string source;
};

/// Templates of our own, each with guards that published ones have.
std::vector<NamedTemplate> templates() {
  const std::string alternation =
      "{%- set ns = namespace(n=0) %}{%- for m in messages %}"
      "{%- if m.role == 'user' or (m.role == 'assistant' and not "
      "m.tool_calls) %}"
      "{%- if (m.role == 'user') != (ns.n % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{%- endif %}"
      "{%- set ns.n = ns.n + 1 %}{%- endif %}{%- endfor %}";
  return {
      {"free", chatMl("")},
      {"system first, a user somewhere",
       chatMl("{%- if m.role == 'system' and not loop.first %}"
              "{{ raise_exception('system must be first') }}{%- endif %}",
              "{%- if messages | selectattr('role', 'equalto', 'user') | list "
              "| length == 0 %}{{ raise_exception('no user') }}{%- endif %}")},
      {"ids of nine, alternation, calls without text",
       "{%- if messages[0].role == 'system' %}"
       "{%- set sys = messages[0].content %}{%- set messages = messages[1:] %}"
       "{%- endif %}" +
           alternation +
           "{%- for m in messages %}{%- if m.role == 'user' %}"
           "{{ '[INST]' }}{%- if loop.first and sys is defined %}{{ sys + "
           "'\\n' }}"
           "{%- endif %}{{ m.content + '[/INST]' }}"
           "{%- elif m.tool_calls %}{{ '[TOOL_CALLS][' }}"
           "{%- for c in m.tool_calls %}{%- if c.id | length != 9 %}"
           "{{ raise_exception('ids have 9 letters') }}{%- endif %}"
           "{{ c.function | tojson }}{{ c.id }}{%- endfor %}{{ ']' }}"
           "{%- elif m.role == 'assistant' %}{{ m.content }}"
           "{%- elif m.role == 'tool' %}"
           "{%- if m.tool_call_id | length != 9 %}"
           "{{ raise_exception('ids have 9 letters') }}{%- endif %}"
           "{{ '[RESULT]' + m.content + m.tool_call_id }}"
           "{%- else %}{{ raise_exception('unknown role') }}{%- endif %}"
           "{%- endfor %}"},
      {"user and model alternate",
       "{%- if messages[0].role == 'system' %}"
       "{{ raise_exception('no system') }}{%- endif %}"
       "{%- for m in messages %}"
       "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
       "{{ raise_exception('roles must alternate') }}{%- endif %}"
       "{{ '<turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
       "(m.content | trim) + '<end>' }}{%- endfor %}"},
      {"raises for all but user and assistant",
       "{%- for m in messages %}{%- if m.tool_calls or m.role not in ['user', "
       "'assistant'] %}{{ raise_exception('odd') }}{%- endif %}"
       "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
       "{{ raise_exception('odd') }}{%- endif %}{{ m.content }}{%- endfor %}"},
      {"systems in front, arguments as texts",
       "{%- set ns = namespace(s='') %}{%- for m in messages %}"
       "{%- if m.role == 'system' %}{%- set ns.s = ns.s + m.content + '\\n' %}"
       "{%- endif %}{%- endfor %}{{ ns.s }}"
       "{%- for m in messages %}{%- if m.role == 'user' %}"
       "{{ '<U>' + m.content }}"
       "{%- elif m.role == 'assistant' %}{{ '<A>' + (m.content or '') }}"
       "{%- for c in m.tool_calls or [] %}"
       "{{ '<call>' + c.function.name + '\\n' + c.function.arguments }}"
       "{%- endfor %}"
       "{%- elif m.role == 'tool' %}{{ '<T>' + m.content }}{%- endif %}"
       "{%- endfor %}"},
      {"one call, without text",
       "{%- for m in messages %}{%- if m.tool_calls %}"
       "{%- if m.tool_calls | length != 1 %}"
       "{{ raise_exception('one call at a time') }}{%- endif %}"
       "{{ '<|a|>' }}{{ m.tool_calls[0].function | tojson }}"
       "{%- elif m.role == 'tool' %}{{ '<|ipython|>' + m.content }}"
       "{%- else %}{{ '<|' + m.role + '|>' + m.content }}{%- endif %}"
       "{%- endfor %}"},
      {"contents are lists",
       "{%- for m in messages %}{{ '<' + m.role + '>' }}"
       "{%- for p in m.content %}{%- if p.type == 'text' %}{{ p.text }}"
       "{%- endif %}{%- endfor %}"
       "{%- for c in m.tool_calls or [] %}{{ c.function | tojson }}"
       "{%- endfor %}{%- endfor %}"},
      {"ids are names",
       "{%- for m in messages %}{{ '<' + m.role + '>' }}"
       "{%- for c in m.tool_calls or [] %}"
       "{{ '<call>' + c.id + (c.function.arguments | tojson) }}{%- endfor %}"
       "{%- if m.role == 'tool' %}{{ '## ' + m.tool_call_id + '\\n' }}"
       "{%- endif %}{{ m.content }}{%- endfor %}"},
      {"developers, no calls without tools",
       "{%- for m in messages %}{%- if m.role == 'system' %}"
       "{{ raise_exception('no system') }}"
       "{%- elif m.role == 'developer' %}{{ '<dev!>' + m.content }}"
       "{%- elif m.tool_calls and tools %}{{ '<c>' + (m.content or '') }}"
       "{{ m.tool_calls | tojson }}"
       "{%- elif m.role == 'tool' and not tools %}"
       "{%- else %}{{ '<' + m.role + '>' + m.content }}{%- endif %}"
       "{%- endfor %}"},
      {"needs two turns of a tool",
       "{%- for m in messages %}{%- if m.role == 'tool' %}"
       "{%- if loop.index0 == 0 or (messages[loop.index0 - 1].role != 'tool' "
       "and not messages[loop.index0 - 1].tool_calls) %}"
       "{{ raise_exception('a result without a call') }}{%- endif %}"
       "{%- endif %}"
       "{%- if m.role == 'user' and loop.index0 > 0 and "
       "messages[loop.index0 - 1].role == 'tool' %}"
       "{{ raise_exception('a user after a tool') }}{%- endif %}"
       "{{ '<' + m.role + '>' + m.content }}{{ m.tool_calls | tojson if "
       "m.tool_calls else '' }}{%- endfor %}"},
  };
}

/// A random conversation whose texts are words of their own, and these words.
class RandomConversation {
public:
  explicit RandomConversation(uint64_t seed) : random_(seed) {
    const size_t turns = 1 + pick(8);
    while (pick(3) == 0)
      say(pick(2) ? "system" : "developer");
    for (size_t i = 0; i < turns; ++i)
      addTurn();
    if (list.empty() || list.back()["role"] == "assistant")
      say("user");
    if (pick(2))
      tools = Json::array({Json{{"type", "function"},
                                {"function",
                                 {{"name", "look"},
                                  {"description", "Looks."},
                                  {"parameters", {{"type", "object"}}}}}}});
  }

  Json list = Json::array(), tools = nullptr;
  /// Each word with the number of its group: what a message says, or its calls
  /// with their results. Groups have the order of the conversation.
  std::vector<std::pair<std::string, size_t>> words;

private:
  size_t pick(size_t count) { return random_() % count; }

  std::string word() {
    words.emplace_back(fmt::format("w{}ord", words.size()), group_);
    return words.back().first;
  }

  void say(const char *role) {
    ++group_;
    list.push_back({{"role", role}, {"content", word()}});
  }

  void addResult(const std::string &id) {
    Json message = {{"role", "tool"}, {"content", word()}};
    if (!id.empty())
      message["tool_call_id"] = id;
    list.push_back(std::move(message));
  }

  void addCalls() {
    ++group_;
    Json message = {{"role", "assistant"}, {"content", ""}};
    if (pick(2))
      message["content"] = word();
    ++group_;
    std::vector<std::string> ids;
    const size_t count = 1 + pick(3);
    const bool hasIds = pick(4) > 0;
    for (size_t i = 0; i < count; ++i) {
      ids.push_back(hasIds ? fmt::format("call_{}_{}", group_, i) : "");
      Json arguments;
      switch (pick(4)) {
      case 0:
        arguments = "";
        break;
      case 1:
        arguments = "{\"path\": \"" + word();
        break;
      default:
        arguments = {{"path", word()}, {"deep", {{"list", {1, word()}}}}};
      }
      message["tool_calls"].push_back(
          {{"id", ids.back()},
           {"type", "function"},
           {"function",
            {{"name", "look"}, {"arguments", std::move(arguments)}}}});
    }
    list.push_back(std::move(message));
    if (pick(8) == 0)
      ids.pop_back();
    for (const std::string &id : ids)
      addResult(id);
  }

  void addTurn() {
    switch (pick(8)) {
    case 0:
      return say(pick(2) ? "system" : "developer");
    case 1:
    case 2:
      return say("assistant");
    case 3:
    case 4:
      return addCalls();
    case 5:
      if (pick(3) == 0) {
        ++group_;
        return addResult("call_lost");
      }
      [[fallthrough]];
    default:
      return say("user");
    }
  }

  std::mt19937_64 random_;
  size_t group_ = 0;
};

void expectAllWords(const RandomConversation &conversation,
                    const std::string &text) {
  size_t group = 0, from = 0, last = 0;
  for (const auto &[word, number] : conversation.words) {
    const size_t at = text.find(word);
    ASSERT_NE(at, text.npos) << word << " is not in " << text;
    ASSERT_EQ(text.find(word, at + 1), text.npos) << word << " twice " << text;
    if (number != group) {
      group = number;
      from = last;
    }
    ASSERT_GE(at, from) << word << " stands too early in " << text;
    last = std::max(last, at);
  }
}

TEST(HistoryTest, AllTextIsInThePromptInItsOrder) {
  std::vector<NamedTemplate> all = templates();
  for (const moetest::FamilyTemplate &family : moetest::familyTemplates())
    all.push_back({family.name, family.source});
  for (const NamedTemplate &one : all) {
    auto format = ChatFormat::fromTemplate(one.source, byteTokenizer());
    ASSERT_TRUE(format.isOk()) << one.name << format.status().message();
    for (uint64_t seed = 0; seed < 150; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", one.name, seed));
      RandomConversation conversation(seed);
      Messages messages;
      messages.list() = conversation.list;
      messages.variables()["tools"] = conversation.tools;
      auto prompt = fitPrompt(*format, messages, {});
      auto *fault = std::get_if<FitFault>(&prompt);
      ASSERT_FALSE(fault) << fault->message << ": " << fault->status.message()
                          << conversation.list.dump();
      expectAllWords(conversation, std::get<ChatPrompt>(prompt).text);
      if (HasFatalFailure())
        FAIL() << conversation.list.dump();
    }
  }
}

TEST(HistoryTest, FamiliesWriteCallsInTheirOwnForm) {
  const Json variables = {{"tools", Json::array({Json::object()})}};
  for (const moetest::FamilyTemplate &family : moetest::familyTemplates()) {
    auto format = ChatFormat::fromTemplate(family.source, byteTokenizer());
    ASSERT_TRUE(format.isOk()) << family.name << format.status().message();
    const TemplateHabits &habits = format->history().habits(variables);
    EXPECT_EQ(habits.takesCalls, family.tellsTools) << family.name;
    EXPECT_EQ(habits.takesSeveralCalls, family.takesSeveralCalls)
        << family.name;
    EXPECT_EQ(habits.takesTextBesideCall, family.takesTextBesideCall)
        << family.name;
    EXPECT_EQ(habits.systemRole, "system") << family.name;
  }
}

std::string rendered(const std::string &source, const char *messages) {
  auto format = ChatFormat::fromTemplate(source, byteTokenizer());
  EXPECT_TRUE(format.isOk()) << format.status().message();
  Messages list;
  list.list() = Json::parse(messages);
  auto prompt = fitPrompt(*format, list, {});
  if (auto *fault = std::get_if<FitFault>(&prompt))
    return fmt::format("{}: {}", fault->message, fault->status.message());
  return std::get<ChatPrompt>(prompt).text;
}

TEST(HistoryTest, TemplatesThatTakeAConversationWriteItAsItIs) {
  EXPECT_EQ(rendered(templates()[0].source, R"([
    {"role": "system", "content": "A"}, {"role": "system", "content": "B"},
    {"role": "user", "content": "C"}, {"role": "assistant", "content": "D"},
    {"role": "system", "content": "E"}, {"role": "user", "content": "F"}])"),
            "<|im_start|>system\nA<|im_end|>\n<|im_start|>system\nB<|im_end|>\n"
            "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\nD<|im_end|>"
            "\n<|im_start|>system\nE<|im_end|>\n<|im_start|>user\nF<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(HistoryTest, LateInstructionsStayWhereTheyWereSaid) {
  EXPECT_EQ(rendered(templates()[1].source, R"([
    {"role": "system", "content": "A"}, {"role": "developer", "content": "B"},
    {"role": "user", "content": "C"}, {"role": "assistant", "content": "D"},
    {"role": "system", "content": "E"}, {"role": "user", "content": "F"}])"),
            "<|im_start|>system\nA\n\nB<|im_end|>\n"
            "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\nD<|im_end|>"
            "\n<|im_start|>user\n[system]\nE\n[/system]\n\nF<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(HistoryTest, IdsOfNineLettersAreTheSameEachTime) {
  const char *messages = R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"id": "call_1", "type": "function",
       "function": {"name": "f", "arguments": {}}},
      {"id": "aB3dE6gH9", "type": "function",
       "function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "aB3dE6gH9", "content": "two"},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"}])";
  const std::string text = rendered(templates()[2].source, messages);
  EXPECT_EQ(rendered(templates()[2].source, messages), text);
  EXPECT_THAT(text, HasSubstr("[RESULT]twoaB3dE6gH9[RESULT]one"));
  const std::string id = text.substr(text.size() - 9);
  EXPECT_NE(text.find(id), text.size() - 9) << "the call has the same id";
}

TEST(HistoryTest, AFaultNamesTheMessage) {
  EXPECT_EQ(rendered("{%- for m in messages %}{%- if m.content == 'bad' %}"
                     "{{ raise_exception('no bad words') }}{%- endif %}"
                     "{{ m.content }}{%- endfor %}",
                     R"([{"role": "user", "content": "a"},
                         {"role": "assistant", "content": "b"},
                         {"role": "user", "content": "bad"},
                         {"role": "assistant", "content": "d"}])"),
            "2: no bad words");
}

TEST(HistoryTest, ReasoningIsWrittenOnce) {
  const std::string source =
      "{%- for m in messages %}{{ m.thinking or '' }}"
      "{{ m.reasoning_content or '' }}{{ m.content }}{%- endfor %}";
  EXPECT_EQ(rendered(source, R"([{"role": "user", "content": "a"},
    {"role": "assistant", "content": "b", "reasoning": "T"},
    {"role": "user", "content": "c"}])"),
            "aTbc");
}

} // namespace
