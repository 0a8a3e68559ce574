#include "test/support/SamplePlan.h"

#include <gtest/gtest.h>

// CApiProgram.c
extern "C" int runProgram(const char *plan, char *message, size_t size);

namespace {

TEST(CApiTest, AProgramInC) {
  moetest::TempDir folder;
  moetest::SamplePlan sample;
  sample.addTokenizer();
  std::string path = sample.builder.write(folder);
  char message[512] = "";
  EXPECT_EQ(runProgram(path.c_str(), message, sizeof(message)), 0) << message;
}

} // namespace
