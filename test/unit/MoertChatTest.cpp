// moert render, chat, run --chat and tokenize --pieces, called by a shell.
#include "test/unit/MoertCliTest.h"

#include <nlohmann/json.hpp>

using moetest::contentOf;
using moetest::MoertCliTest;
using Json = nlohmann::json;

namespace {

/// A plan with a chat template, and input files.
class MoertChatTest : public MoertCliTest {
protected:
  MoertChatTest() {
    sample_.builder.plan.tokenizer->chat_template =
        "{% for m in messages %}{% if m.role == 'tool' %}"
        "{{ raise_exception('No tools here') }}{% endif %}{{ m.content }}"
        "{% endfor %}{{ eos_token if add_generation_prompt }}";
    // Replaces unused tokens; their names can be read as text.
    auto &tokens = sample_.builder.plan.tokenizer->tokens;
    size_t next = tokens.size();
    for (char c : std::string_view("<>/-,;:!"))
      tokens[--next] = std::string(1, c);
    plan_ = sample_.builder.write(folder_);
  }
  std::string file(const std::string &name, const std::string &content) {
    std::ofstream(folder_.file(name), std::ios::binary) << content;
    return folder_.file(name);
  }
};

TEST_F(MoertChatTest, RenderPrintsTheTextOrTheTemplatesError) {
  std::string input = file("in.json", R"({"messages": [{"role": "user",
    "content": "a\u0007é\r\n"}], "add_generation_prompt": true})");
  Result result = moert("render " + plan_ + " --input " + input);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_EQ(result.out, "a\aé\r\n</s>");
  result = moert("render " + plan_ + " --input - < " + input);
  EXPECT_EQ(result.out, "a\aé\r\n</s>");

  std::string chat = file("t.jinja", "{{ x }}{{ missing.y }}");
  result = moert("render --template " + chat + " --input " +
                 file("x.json", R"({"x": [1.0]})"));
  EXPECT_EQ(result.exitCode, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("line 1, column 19: 'missing' is undefined"),
            std::string::npos)
      << result.err;

  input = file("tool.json", R"({"messages": [{"role": "tool"}]})");
  result = moert("render " + plan_ + " --input " + input);
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_EQ(result.err, "error: No tools here\n");
  EXPECT_EQ(moert("render --input " + input).exitCode, 2);
  EXPECT_EQ(
      moert("render " + plan_ + " --template " + chat + " --input " + input)
          .exitCode,
      2);
}

TEST_F(MoertChatTest, AChatIsItsTemplatesText) {
  std::string run = "run " + plan_ + " --temp 0 -n 4 --json ";
  Result chat = moert(run + "--chat -p 'the a'");
  ASSERT_EQ(chat.exitCode, 0) << chat.err;
  Json object = Json::parse(chat.out);
  EXPECT_EQ(object["prompt"], "the a</s>");
  chat = moert(run + "--system 'the ' -p a");
  EXPECT_EQ(Json::parse(chat.out)["prompt"], "the a</s>");
  chat = moert(run + "--messages " +
               file("m.json", R"([{"role": "user", "content": "the"}])"));
  ASSERT_EQ(chat.exitCode, 0) << chat.err;
  EXPECT_EQ(Json::parse(chat.out)["prompt"], "the</s>");
  for (const char *bad : {"{", "3", "[1]", "{\"a\": 1}"}) {
    chat = moert(run + "--messages " + file("bad.json", bad));
    EXPECT_EQ(chat.exitCode, 3) << bad;
    EXPECT_NE(chat.err.find("bad.json"), std::string::npos) << chat.err;
  }
  EXPECT_EQ(moert(run + "--chat").exitCode, 2);
}

// A program that requests a chat gets an error; for a person, text continues.
TEST_F(MoertChatTest, APlanWithoutATemplateSaysSo) {
  sample_.builder.plan.tokenizer->chat_template = "";
  plan_ = sample_.builder.write(folder_);
  Result result = moert("run --chat -p a " + plan_);
  EXPECT_EQ(result.exitCode, 6);
  EXPECT_NE(result.err.find("has no chat template"), std::string::npos);

  std::string script = file("script", "the\n");
  result = moert("chat " + plan_ + " --temp 0 -n 4 < " + script);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  EXPECT_NE(result.err.find("note: the model has no chat template"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.out, moert("run " + plan_ + " --temp 0 -n 4 -p the").out);
}

TEST_F(MoertChatTest, NoSpecialReadsNamesAsText) {
  std::string text = " --no-bos --text 'a</s>'";
  EXPECT_NE(moert("tokenize " + plan_ + text).out,
            moert("tokenize " + plan_ + text + " --no-special").out);
  std::string run = "run " + plan_ + " -n 1 --json --chat -p '</s>' ";
  Json with = Json::parse(moert(run).out);
  Json without = Json::parse(moert(run + "--no-special").out);
  EXPECT_EQ(with["prompt_tokens"], 2);
  EXPECT_EQ(without["prompt_tokens"], 5) << "the template's own stays special";
}

TEST_F(MoertChatTest, PiecesAreAJsonList) {
  std::string pieces = "tokenize " + plan_ + " --pieces --text 'the 12</s>x'";
  EXPECT_EQ(moert(pieces).out, "[\"the\",\" 12\",\"</s>\",\"x\"]\n");
  EXPECT_EQ(moert(pieces + " --no-special").out,
            "[\"the\",\" 12\",\"</\",\"s\",\">\",\"x\"]\n");
  EXPECT_EQ(moert(pieces + " --pre qwen2").out,
            "[\"the\",\" \",\"1\",\"2\",\"</s>\",\"x\"]\n");
  Result result = moert(pieces + " --pre qwen-2");
  EXPECT_EQ(result.exitCode, 6);
  EXPECT_NE(result.err.find("did you mean qwen2?"), std::string::npos);
}

TEST_F(MoertChatTest, ATurnEvaluatesOnlyNewTokens) {
  std::string saved = folder_.file("saved.json");
  std::string script = file("script", "the a\n/stats\nthe\n/stats\n/save " +
                                          saved + "\n/nosuch\n/reset\n/exit\n");
  Result result = moert("chat " + plan_ + " --temp 0 -n 2 < " + script);
  ASSERT_EQ(result.exitCode, 0) << result.err;
  Json messages = Json::parse(contentOf(saved))["messages"];
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[2]["content"], "the");
  EXPECT_EQ(messages[1]["role"], "assistant");
  EXPECT_NE(result.err.find("no command /nosuch"), std::string::npos);
  EXPECT_NE(result.err.find("; 0 were cached"), std::string::npos)
      << result.err;
  size_t second = result.err.rfind(" were cached");
  EXPECT_NE(result.err.substr(second - 3, 3), "; 0") << result.err;

  result = moert("chat " + plan_ + " -n 1 --system the --messages " + saved +
                 " < /dev/null");
  EXPECT_EQ(result.exitCode, 0) << result.err;
}

// The model's own tokens may differ from those of their text: "t", "h".
TEST_F(MoertChatTest, TheModelsOwnTokensAreNotEvaluatedAgain) {
  std::string chat = file("t.jinja", "{% for m in messages %}{{ m.content }}"
                                     "</s>{% endfor %}");
  std::string script = file("script", "the a\nthe\n/stats\n");
  Result result = moert("chat " + plan_ + " --template " + chat +
                        " --temp 9 --seed 1 -n 4 < " + script);
  ASSERT_EQ(result.exitCode, 0) << result.err;
  // The last token of an answer and its end, then the message and its end.
  EXPECT_NE(result.err.find(" 4 new tokens"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; 7 were cached"), std::string::npos)
      << result.err;
}

} // namespace
