// moec compile refuses to replace certain files, and leaves nothing when it is
// killed.

#include "compiler/Driver/Driver.h"
#include "test/support/TempDir.h"
#include "test/support/TinyDeepseek.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace moetest;
using moert::StatusCode;
namespace stdfs = std::filesystem;

namespace {

std::string contentOf(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CompileOutputs, NoPartOfASplitModelIsReplaced) {
  TempDir folder;
  TinyDeepseek model;
  auto output = model.tensors.extract("output.weight");
  std::vector<GgufBuilder> parts = {model.build(), GgufBuilder()};
  parts[1].addTensor(output.key(), output.mapped().format,
                     output.mapped().shape);
  std::vector<std::string> paths;
  for (uint16_t i = 0; i < 2; ++i) {
    parts[i].add("split.no", i).add("split.count", uint16_t(2));
    parts[i].add("split.tensors.count", int32_t(model.tensors.size() + 1));
    paths.push_back(parts[i].write(
        folder.file("m-0000" + std::to_string(i + 1) + "-of-00002.gguf")));
  }
  moec::CompileRequest request;
  request.target = "xeon";
  request.weights = "reference";
  request.model = paths[0];
  request.output = folder.file("m.fb");
  auto fine = moec::compileModel(request);
  EXPECT_TRUE(fine.isOk()) << fine.status().message();
  for (size_t named : {0, 1})
    for (size_t replaced : {0, 1}) {
      std::string before = contentOf(paths[replaced]);
      request.model = paths[named];
      request.output = paths[replaced];
      auto report = moec::compileModel(request);
      ASSERT_FALSE(report.isOk());
      EXPECT_EQ(report.status().code(), StatusCode::Usage);
      EXPECT_NE(
          report.status().message().find(paths[replaced] +
                                         ": writing there would destroy the "
                                         "model " +
                                         paths[replaced]),
          std::string::npos)
          << report.status().message();
      EXPECT_EQ(contentOf(paths[replaced]), before);
    }
}

/// Compiles a model whose weights are holes; packing it writes 200 MB.
class EndedCompile : public ::testing::TestWithParam<int> {
protected:
  using Names = std::vector<std::string>;

  EndedCompile() {
    TinyDeepseek model;
    for (std::string name : {"gate", "up"})
      model.tensors["blk.1.ffn_" + name + "_exps.weight"].shape = {64, 16384,
                                                                   16};
    model.tensors["blk.1.ffn_down_exps.weight"].shape = {16384, 64, 16};
    model.tensors["blk.1.ffn_gate_inp.weight"].shape = {64, 16};
    model.keys["expert_count"] = uint32_t(16);
    model.keys["expert_feed_forward_length"] = uint32_t(16384);
    for (std::string name : {"gate", "up"})
      model.tensors["blk.1.ffn_" + name + "_shexp.weight"].shape = {64, 32768};
    model.tensors["blk.1.ffn_down_shexp.weight"].shape = {32768, 64};
    model.build().write(folder_.file("m.gguf"));
  }

  pid_t start() {
    pid_t child = ::fork();
    if (child == 0) {
      // Under nohup, tests would ignore these signals.
      for (int ignored : {SIGINT, SIGHUP})
        std::signal(ignored, SIG_DFL);
      ::execl(MOEC_PATH, "moec", "compile", folder_.file("m.gguf").c_str(),
              "--target", "xeon", "--weights", "pack", "-o",
              folder_.file("m.fb").c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }
  /// Sends the signal as soon as there are temporary files, and returns how the
  /// process ended. Repeats a compilation that ended before.
  int endByParam() {
    int status = 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
      pid_t child = start(), ended = 0;
      while (ended == 0 && temporaries().empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ended = ::waitpid(child, &status, WNOHANG);
      }
      if (ended == 0) {
        ::kill(child, GetParam());
        ::waitpid(child, &status, 0);
      }
      if (status != 0)
        break;
      stdfs::remove(folder_.file("m.fb"));
      stdfs::remove(folder_.file("m.weights"));
    }
    return status;
  }
  Names names(std::string_view prefix = "") {
    Names found;
    for (const auto &entry : stdfs::directory_iterator(folder_.path()))
      if (std::string name = entry.path().filename(); name.starts_with(prefix))
        found.push_back(name);
    return found;
  }
  Names temporaries() { return names("."); }

  TempDir folder_;
};

TEST_P(EndedCompile, LeavesTheFolderAsItWas) {
  int status = endByParam();
  if (GetParam() == SIGINT && WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 130);
  } else {
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), GetParam());
  }
  if (GetParam() == SIGKILL) {
    // After SIGKILL, only the next compilation can clean up.
    EXPECT_NE(temporaries(), Names());
    ASSERT_EQ(::waitpid(start(), &status, 0) > 0 ? status : -1, 0);
    EXPECT_EQ(temporaries(), Names());
  } else {
    EXPECT_EQ(names(), Names{"m.gguf"});
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, EndedCompile,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGKILL));

} // namespace
