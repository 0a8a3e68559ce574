#include "test/support/SamplePlan.h"

#include <cmath>
#include <gtest/gtest.h>

// CApiProgram.c
extern "C" int runProgram(const char *plan, const char *saved, char *message,
                          size_t size);
extern "C" int runDamaged(const char *plan, char *message, size_t size);

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

} // namespace
