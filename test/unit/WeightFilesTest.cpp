// A plan runs on the files it was compiled from and on no others.
#include "runtime/Session.h"
#include "runtime/base/ContentHash.h"
#include "test/support/SamplePlan.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

class WeightFilesTest : public ::testing::Test {
protected:
  Status open(std::vector<std::string> modelPaths = {}) {
    SessionOptions options;
    options.threads = 1;
    options.modelPaths = std::move(modelPaths);
    return Session::open(path_, options).status();
  }

  /// The weights as a model file that the plan references by `recorded`.
  void useModel(const std::string &recorded) {
    sample_.builder.bytes(); // describes the file
    auto &file = *sample_.builder.plan.files[0];
    file.kind = moetest::fb::FileKind::Model;
    file.path = recorded;
    rewrite();
  }

  /// plan.fb from the object as it is, without describing the file anew.
  void rewrite() {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(moetest::fb::Plan::Pack(builder, &sample_.builder.plan),
                   moetest::fb::PlanIdentifier());
    folder_.write("plan.fb",
                  std::span<const uint8_t>(builder.GetBufferPointer(),
                                           builder.GetSize()));
  }

  std::string weights() const {
    return {
        reinterpret_cast<const char *>(sample_.builder.weightBytes().data()),
        sample_.builder.weightBytes().size()};
  }

  void expect(const Status &status, StatusCode code, std::string_view message) {
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos)
        << "got:      " << status.message() << "\nexpected: " << message;
  }

  TempDir folder_;
  SamplePlan sample_;
  std::string path_ = sample_.builder.write(folder_);
};

TEST_F(WeightFilesTest, Missing) {
  std::filesystem::remove(folder_.file("plan.weights"));
  expect(open(), StatusCode::Io, "plan.weights: cannot open: No such file");
  expect(open(), StatusCode::Io, "or recompile: moec compile");
}

TEST_F(WeightFilesTest, ShorterLongerAndOther) {
  std::string content = weights();
  folder_.write("plan.weights", content.substr(0, content.size() - 3));
  expect(open(), StatusCode::WrongMachine, "is 3 bytes shorter");
  folder_.write("plan.weights", content + "x");
  expect(open(), StatusCode::WrongMachine, "is 1 byte longer");
  content[100] ^= 1;
  folder_.write("plan.weights", content);
  expect(open(), StatusCode::WrongMachine, "is another file of the same size");
}

TEST_F(WeightFilesTest, PackedFilesLieBesideThePlan) {
  sample_.builder.bytes();
  for (const char *name : {"/etc/passwd", "../plan.weights", "a/b", ".."}) {
    sample_.builder.plan.files[0]->path = name;
    rewrite();
    expect(open(), StatusCode::InvalidFile, "is not a plain file name");
  }
}

TEST_F(WeightFilesTest, SymbolicLinksAreNoPackedFiles) {
  folder_.write("elsewhere", weights());
  std::filesystem::remove(folder_.file("plan.weights"));
  std::filesystem::create_symlink(folder_.file("elsewhere"),
                                  folder_.file("plan.weights"));
  expect(open(), StatusCode::InvalidFile, "is a symbolic link");
}

TEST_F(WeightFilesTest, ModelsAreFoundBelowThePlanOrByAbsolutePath) {
  std::filesystem::create_directory(folder_.file("models"));
  std::string model = folder_.write("models/a.gguf", weights());
  useModel("models/a.gguf");
  EXPECT_TRUE(open().isOk()) << open().message();
  useModel(model);
  EXPECT_TRUE(open().isOk()) << open().message();
  useModel("../a.gguf");
  expect(open(), StatusCode::InvalidFile, "outside the plan's folder");
}

TEST_F(WeightFilesTest, AMovedModelIsGivenByFlag) {
  useModel("/nowhere/a.gguf");
  expect(open(), StatusCode::Io, "give its place with --model PATH");
  std::string moved = folder_.write("moved.gguf", weights());
  EXPECT_TRUE(open({moved}).isOk()) << open({moved}).message();
  expect(open({folder_.write("wrong.gguf", weights() + "!")}),
         StatusCode::WrongMachine, "is 1 byte longer");
  expect(open({moved, moved}), StatusCode::Usage,
         "--model was given 2 times, but the plan has 1 model file");
}

TEST_F(WeightFilesTest, ContentHashIsTheKnownOne) {
  // XXH3-128 of the empty input, from the algorithm's specification.
  EXPECT_EQ(contentHash({}), "99aa06d3014798d86001c324468d497f");
}

} // namespace
