// A plan runs only with the files for which it was compiled.
#include "runtime/engine/Engine.h"
#include "runtime/plan/VerifyContent.h"
#include "runtime/schema/WeightsFile.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

class WeightFilesTest : public ::testing::Test {
protected:
  Status open(std::vector<std::string> modelPaths = {},
              std::string weightsFile = {}) {
    EngineOptions options;
    options.threads = 1;
    options.files.models = std::move(modelPaths);
    options.files.packed = std::move(weightsFile);
    return Engine::open(path_, options).status();
  }

  /// Puts the weights into a model file that the plan references as `recorded`.
  void useModel(const std::string &recorded) {
    sample_.builder.bytes(); // Computes the description of the file.
    auto &file = *sample_.builder.plan.files[0];
    file.kind = moetest::fb::FileKind::Model;
    file.path = recorded;
    rewrite();
  }

  /// Writes plan.fb from the object as it is, without describing the file
  /// again.
  void rewrite() {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(moetest::fb::Plan::Pack(builder, &sample_.builder.plan),
                   moetest::fb::PlanIdentifier());
    folder_.write("plan.fb",
                  std::span<const uint8_t>(builder.GetBufferPointer(),
                                           builder.GetSize()));
  }

  /// Returns the name of this weights file between a compilation's renames.
  std::string stagedName(const std::string &name) {
    sample_.builder.bytes();
    return stagedWeights(folder_.file(name),
                         sample_.builder.plan.files[0]->header_hash);
  }

  std::string weights() const {
    return {
        reinterpret_cast<const char *>(sample_.builder.weightBytes().data()),
        sample_.builder.weightBytes().size()};
  }

  void expect(const Status &status, StatusCode code, std::string_view message) {
    EXPECT_EQ(status.code(), code) << status.message();
    std::string shown = moetool::fullMessage(status);
    EXPECT_NE(shown.find(message), std::string::npos)
        << "got:      " << shown << "\nexpected: " << message;
  }

  TempDir folder_;
  SamplePlan sample_;
  std::string path_ = sample_.builder.write(folder_);
};

TEST_F(WeightFilesTest, Missing) {
  std::filesystem::remove(folder_.file("plan.weights"));
  expect(open(), StatusCode::Io, "plan.weights: cannot open: No such file");
  expect(
      open(), StatusCode::Io,
      "recompile the model\n  run, with the GGUF file for MODEL: moec compile");
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

TEST_F(WeightFilesTest, PathsAreBelowThePlanOrAbsolute) {
  std::filesystem::create_directory(folder_.file("below"));
  std::string absolute = folder_.write("below/w", weights());
  sample_.builder.bytes();
  for (const std::string &name : {std::string("below/w"), absolute}) {
    sample_.builder.plan.files[0]->path = name;
    rewrite();
    EXPECT_TRUE(open().isOk()) << open().message();
  }
  for (const char *name : {"../plan.weights", "a/../../b", ".."}) {
    sample_.builder.plan.files[0]->path = name;
    rewrite();
    expect(open(), StatusCode::InvalidFile, "is outside the plan's folder");
  }
  // Only files that the plan identifies are read.
  sample_.builder.plan.files[0]->path = "/etc/passwd";
  rewrite();
  expect(open(), StatusCode::WrongMachine, "/etc/passwd: is ");
}

TEST_F(WeightFilesTest, LinksAreFollowed) {
  std::filesystem::create_directory(folder_.file("elsewhere"));
  folder_.write("elsewhere/w", weights());
  std::filesystem::remove(folder_.file("plan.weights"));
  std::filesystem::create_symlink("elsewhere/w", folder_.file("plan.weights"));
  EXPECT_TRUE(open().isOk()) << open().message();
  // A compilation replaces the target of the link meanwhile.
  std::filesystem::rename(folder_.file("elsewhere/w"),
                          stagedName("elsewhere/w"));
  EXPECT_TRUE(open().isOk()) << open().message();
}

TEST_F(WeightFilesTest, ALinkedPlanHasItsWeightsBesideTheLinkOrItsTarget) {
  std::filesystem::create_directory(folder_.file("links"));
  std::string link = folder_.file("links/plan.fb");
  std::filesystem::create_symlink("../plan.fb", link);
  path_ = link;
  EXPECT_TRUE(open().isOk()) << open().message();
  std::string beside = folder_.write("links/plan.weights", weights());
  std::filesystem::remove(folder_.file("plan.weights"));
  EXPECT_TRUE(open().isOk()) << open().message();
  // Other weights next to the link do not hide those next to its target.
  folder_.write("plan.weights", weights());
  folder_.write("links/plan.weights", "others");
  EXPECT_TRUE(open().isOk()) << open().message();
}

TEST_F(WeightFilesTest, MovedWeightsAreGivenByFlag) {
  std::filesystem::create_directory(folder_.file("disk"));
  std::filesystem::rename(folder_.file("plan.weights"), folder_.file("disk/w"));
  expect(open(), StatusCode::Io, "give its place with --weights-file PATH");
  EXPECT_TRUE(open({}, folder_.file("disk/w")).isOk());
  expect(open({}, folder_.write("wrong", weights() + "!")),
         StatusCode::WrongMachine, "wrong: is 1 byte longer");
  useModel(folder_.file("disk/w"));
  expect(open({}, folder_.file("disk/w")), StatusCode::Usage,
         "the plan has no weights file");
}

// Between the renames of a compilation, or after one that was killed there.
TEST_F(WeightFilesTest, StagedWeightsAreFound) {
  std::filesystem::rename(folder_.file("plan.weights"),
                          stagedName("plan.weights"));
  EXPECT_TRUE(open().isOk()) << open().message();
  folder_.write("plan.weights", "of the plan before");
  EXPECT_TRUE(open().isOk()) << open().message();
  // The message is about the file that the plan names.
  std::filesystem::remove(stagedName("plan.weights"));
  expect(open(), StatusCode::WrongMachine, "plan.weights: is ");
}

// A fine-tuned model has the same header as the original.
TEST_F(WeightFilesTest, AnotherModelWithTheSameHeaderIsRefused) {
  sample_.builder.recordsContent = true;
  path_ = sample_.builder.write(folder_);
  EXPECT_TRUE(open().isOk()) << open().message();
  std::string other = weights();
  for (size_t i = 4096; i < other.size(); ++i)
    other[i] ^= 1;
  folder_.write("plan.weights", other);
  expect(open(), StatusCode::WrongMachine,
         "plan.weights: has the right header but other weights");
  expect(open(), StatusCode::WrongMachine, "--weights-file PATH, or recompile");
}

// The plan and its weights are replaced after the plan was read.
TEST_F(WeightFilesTest, APairThatIsReplacedMeanwhileIsOpenedAnew) {
  int calls = 0;
  Status status = openWithPlan(path_, [&](Plan plan) -> Status {
    if (++calls == 1) {
      sample_.builder.plan.model_name = "new";
      sample_.builder.write(folder_);
      folder_.write("plan.weights", "of a plan in between");
    } else if (calls == 2) {
      sample_.builder.plan.model_name = "newer";
      sample_.builder.write(folder_);
    }
    return WeightFiles::open(plan, {}).status();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_GE(calls, 2);
  // If the plan does not change, opening fails at once.
  folder_.write("plan.weights", "others");
  calls = 0;
  status = openWithPlan(path_, [&](Plan plan) {
    ++calls;
    return WeightFiles::open(plan, {}).status();
  });
  EXPECT_EQ(status.code(), StatusCode::WrongMachine);
  EXPECT_EQ(calls, 1);
}

class ContentTest : public WeightFilesTest {
protected:
  ContentTest() {
    sample_.builder.recordsContent = true;
    path_ = sample_.builder.write(folder_);
  }

  std::vector<FileContent> verify() {
    auto plan = Plan::load(path_);
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    auto files = findWeightFiles(*plan, {}, FileCheck::Header);
    EXPECT_TRUE(files.isOk()) << files.status().message();
    auto content = verifyContent(*plan, *files, {2, {}});
    EXPECT_TRUE(content.isOk()) << content.status().message();
    return *std::move(content);
  }
};

TEST_F(ContentTest, EachWeightIsNamed) {
  std::vector<FileContent> content = verify();
  ASSERT_EQ(content.size(), 1u);
  EXPECT_TRUE(content[0].isIntact());
  const auto &table = sample_.builder.plan.weights;
  EXPECT_EQ(content[0].weights, table.size());
  EXPECT_EQ(content[0].sampled, 0u);
  for (const auto &weight : table) {
    if (weight->offset < 4096)
      continue; // The bytes belong to the header.
    std::string damaged = weights();
    damaged[weight->offset + 3] ^= 16;
    folder_.write("plan.weights", damaged);
    content = verify();
    ASSERT_EQ(content[0].damaged.size(), 1u) << weight->name;
    EXPECT_EQ(content[0].damaged[0].name, weight->name);
    EXPECT_EQ(content[0].damaged[0].extent.offset, weight->offset);
    EXPECT_FALSE(content[0].isIntact());
  }
}

// Progress is the sum over all files.
TEST_F(ContentTest, ProgressGoesOnceFromNothingToEverything) {
  auto &plan = sample_.builder.plan;
  auto model = std::make_unique<moetest::fb::FileT>(*plan.files[0]);
  model->kind = moetest::fb::FileKind::Model;
  model->path = folder_.write("m.gguf", weights());
  plan.files.push_back(std::move(model));
  for (size_t i = 0; i < plan.weights.size(); i += 2)
    plan.weights[i]->file = 1;
  rewrite();
  auto loaded = Plan::load(path_);
  ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
  auto files = findWeightFiles(*loaded, {}, FileCheck::Header);
  ASSERT_TRUE(files.isOk()) << files.status().message();
  uint64_t last = 0, end = 0;
  auto content =
      verifyContent(*loaded, *files, {1, [&](uint64_t done, uint64_t total) {
                                        EXPECT_GE(done, last);
                                        EXPECT_LE(done, total);
                                        last = done;
                                        end = total;
                                        return true;
                                      }});
  ASSERT_TRUE(content.isOk()) << content.status().message();
  EXPECT_EQ(last, end);
  EXPECT_EQ(end, (*content)[0].bytes + (*content)[1].bytes);
  EXPECT_TRUE((*content)[0].isIntact() && (*content)[1].isIntact());
}

TEST_F(ContentTest, WithoutChecksumsSamplesAreCompared) {
  for (auto &weight : sample_.builder.plan.weights)
    weight->checksum.clear();
  rewrite();
  std::vector<FileContent> content = verify();
  EXPECT_TRUE(content[0].isIntact());
  EXPECT_EQ(content[0].weights, 0u);
  EXPECT_EQ(content[0].sampled, sample_.builder.plan.weights.size());
  EXPECT_EQ(content[0].bytes, 0u);
  EXPECT_GT(content[0].unchecked, 0u);
  std::string other = weights();
  for (size_t i = 4096; i < other.size(); ++i)
    other[i] ^= 1;
  folder_.write("plan.weights", other);
  content = verify();
  EXPECT_TRUE(content[0].samplesDiffer);
  EXPECT_FALSE(content[0].isIntact());
}

TEST_F(ContentTest, AFileThatBecomesShorterIsAnError) {
  auto plan = Plan::load(path_);
  auto files = findWeightFiles(*plan, {}, FileCheck::Header);
  ASSERT_TRUE(files.isOk()) << files.status().message();
  std::filesystem::resize_file(folder_.file("plan.weights"), 5000);
  Status status = verifyContent(*plan, *files, {}).status();
  expect(status, StatusCode::Io, "became shorter while it was read");
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

} // namespace
