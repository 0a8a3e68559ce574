//===- ChatTemplateTest.cpp - Templates as Hugging Face renders them ------===//

#include "runtime/text/ChatTemplate.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

using namespace moert;
using testing::HasSubstr;
using testing::Not;

namespace {

StatusOr<std::string> renderWith(std::string_view source,
                                 const std::string &json = "{}") {
  MOE_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::parse(source));
  return chat.render({.json = json});
}

std::string render(std::string_view source, const std::string &json = "{}") {
  StatusOr<std::string> text = renderWith(source, json);
  return text ? *text : "error: " + text.status().message();
}

using Json = nlohmann::ordered_json;

Json golden() {
  std::ifstream file(MOE_TEST_DATA "/chat/cases.json");
  return Json::parse(file);
}

TEST(ChatTemplate, RenderingEndsWhenItsTimeIsOver) {
  auto chat = ChatTemplate::parse(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
      "{% endfor %}");
  ASSERT_TRUE(chat);
  auto failure = [&](int milliseconds) {
    return std::string(
        chat->render(
                {.deadline = Deadline(std::chrono::milliseconds(milliseconds))})
            .status()
            .message());
  };
  EXPECT_THAT(failure(5), HasSubstr("takes longer than the 5 ms"));
  EXPECT_THAT(failure(0), Not(HasSubstr("takes longer")));
}

// Expected texts are those of Jinja2 with Hugging Face's settings.
TEST(ChatTemplate, GoldenCases) {
  Json all = golden();
  for (const Json &item : all["cases"]) {
    const Json &conversation =
        all["conversations"][item["conversation"].get<std::string>()];
    Json input = conversation.value("extra", Json::object());
    input["messages"] = conversation["messages"];
    input["tools"] = conversation.value("tools", Json());
    input["add_generation_prompt"] = item["add_generation_prompt"];
    for (const char *name : {"bos_token", "eos_token", "strftime_now"})
      input[name] = all[name];
    std::string name = item["template"].get<std::string>() + ", " +
                       item["conversation"].get<std::string>();
    StatusOr<std::string> text =
        renderWith(all["templates"][item["template"].get<std::string>()]
                       .get<std::string>(),
                   input.dump());
    if (item.contains("text")) {
      EXPECT_TRUE(text) << name << ": " << text.status().message();
      EXPECT_EQ(text ? *text : "", item["text"].get<std::string>()) << name;
    } else {
      EXPECT_FALSE(text) << name;
      std::string error = text.status().message();
      EXPECT_EQ(error, item.value("error", error)) << name;
    }
  }
  EXPECT_GT(all["cases"].size(), 100u);
}

struct Case {
  const char *source, *expected;
};

void expectAll(std::initializer_list<Case> cases) {
  for (const Case &item : cases)
    EXPECT_EQ(render(item.source), item.expected) << item.source;
}

} // namespace

#include "ChatTemplateCases.inc"
