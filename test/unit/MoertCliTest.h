//===- MoertCliTest.h - Runs moert in a shell -------------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_MOERTCLITEST_H
#define MOE_TEST_UNIT_MOERTCLITEST_H

#include "test/support/SamplePlan.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace moetest {

inline std::string contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Provides a folder with the sample plan and its tokenizer.
class MoertCliTest : public ::testing::Test {
protected:
  struct Result {
    int exitCode; ///< Exit status; negative: the signal that ended the process.
    std::string out, err;
  };

  MoertCliTest() {
    sample_.addTokenizer();
    plan_ = sample_.builder.write(folder_);
  }

  /// Runs `moert arguments` in a shell; stderr is no terminal.
  Result moert(const std::string &arguments) {
    std::string command = std::string(MOERT_PATH) + " " + arguments + " >" +
                          folder_.file("out") + " 2>" + folder_.file("err");
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            contentOf(folder_.file("out")), contentOf(folder_.file("err"))};
  }

  TempDir folder_;
  SamplePlan sample_;
  std::string plan_;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_MOERTCLITEST_H
