#include "test/support/SamplePlan.h"

#include <gtest/gtest.h>

// CApiSchedulerProgram.c
extern "C" {
using Program = int(const char *plan, char *message, size_t size);
Program runTexts, runEmbeddings, runCancelled, runConstrained, runTools,
    runWithoutTemplate;
int runSchedulerNulls(void);
}

namespace {

/// Runs a program on a plan that decodes four texts together, whose tokenizer
/// has what JSON and calls of tools need.
void expectRuns(Program *program, bool hasTemplate = true) {
  moetest::TempDir folder;
  moetest::SamplePlan sample("ref",
                             {.context = 192, .pages = 16, .sequences = 4});
  sample.addTokenizer();
  auto &tokenizer = *sample.builder.plan.tokenizer;
  const char *const names[] = {
      "<tool_call>", "</tool_call>", "{", "}", "\"", ":", ",", "\u010A"};
  for (size_t i = 0; i < std::size(names); ++i)
    tokenizer.tokens[32 + i] = names[i];
  tokenizer.types[32] = tokenizer.types[33] = 3; // Type of control tokens.
  if (hasTemplate)
    // The template has the tools' names and calls, whose letters the vocabulary
    // has.
    tokenizer.chat_template =
        "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}"
        "{% for m in messages %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n"
        "{{ '{' }}\"name\": \"{{ c.function.name }}\", \"arguments\": "
        "{{ c.function.arguments | tojson }}{{ '}' }}\n</tool_call>"
        "{% endfor %}{% endfor %}";
  std::string path = sample.builder.write(folder);
  char message[512] = "";
  EXPECT_EQ(program(path.c_str(), message, sizeof(message)), 0) << message;
}

TEST(CApiSchedulerTest, TogetherTheyAreWhatEachIsAlone) {
  expectRuns(runTexts);
}
TEST(CApiSchedulerTest, Embeddings) { expectRuns(runEmbeddings); }
TEST(CApiSchedulerTest, CancelledByOthers) { expectRuns(runCancelled); }
TEST(CApiSchedulerTest, ConstraintsHold) { expectRuns(runConstrained); }
TEST(CApiSchedulerTest, CallsOfTools) { expectRuns(runTools); }
TEST(CApiSchedulerTest, WithoutChatTemplate) {
  expectRuns(runWithoutTemplate, /*hasTemplate=*/false);
}
TEST(CApiSchedulerTest, NullHandles) { EXPECT_EQ(runSchedulerNulls(), 0); }

} // namespace
