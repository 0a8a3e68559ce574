#include "test/support/SamplePlan.h"

#include <cmath>
#include <gtest/gtest.h>

// CApiProgram.c
extern "C" int runProgram(const char *plan, const char *saved, char *message,
                          size_t size);
extern "C" int runDamaged(const char *plan, char *message, size_t size);
extern "C" int runFacts(const char *plan, char *message, size_t size);
extern "C" int runReplies(const char *plan, char *message, size_t size);
extern "C" int runNulls(void);

namespace {

TEST(CApiTest, AProgramInC) {
  moetest::TempDir folder;
  moetest::SamplePlan sample("ref", {.pages = 4});
  sample.addTokenizer();
  std::string path = sample.builder.write(folder);
  std::string saved = folder.path() + "/text.seq";
  char message[512] = "";
  EXPECT_EQ(runProgram(path.c_str(), saved.c_str(), message, sizeof(message)),
            0)
      << message;
}

TEST(CApiTest, NanIsReported) {
  moetest::TempDir folder;
  moetest::SamplePlan sample;
  sample.addTokenizer();
  sample.fillRow("router", 0, 1, NAN);
  std::string path = sample.builder.write(folder);
  char message[512] = "";
  EXPECT_EQ(runDamaged(path.c_str(), message, sizeof(message)), 0) << message;
  EXPECT_NE(std::string(message).find("router holds values"), std::string::npos)
      << message;
}

/// A plan with all that the programs ask for.
std::string writePlan(const moetest::TempDir &folder) {
  moetest::SamplePlan sample("ref", {.pages = 4});
  sample.addTokenizer();
  sample.builder.plan.model_name = "sample";
  sample.builder.plan.tokenizer->chat_template =
      "{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}";
  return sample.builder.write(folder);
}

TEST(CApiTest, FactsTextAndConversations) {
  moetest::TempDir folder;
  char message[512] = "";
  EXPECT_EQ(runFacts(writePlan(folder).c_str(), message, sizeof(message)), 0)
      << message;
}

TEST(CApiTest, SamplersAndReplies) {
  moetest::TempDir folder;
  char message[512] = "";
  EXPECT_EQ(runReplies(writePlan(folder).c_str(), message, sizeof(message)), 0)
      << message;
}

TEST(CApiTest, NullHandles) { EXPECT_EQ(runNulls(), 0); }

} // namespace
