//===- PlanPairTest.cpp - A plan and its weights, replaced as one ---------===//

#include "compiler/Serialize/PlanPair.h"

#include "runtime/base/ContentHash.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/WeightsFile.h"
#include "test/support/SamplePlan.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <set>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using moert::OutputFile;
using moert::Status;
using moert::StatusCode;
using testing::HasSubstr;
namespace stdfs = std::filesystem;

namespace {

std::string contentOf(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct PlanPairTest : testing::Test {
  /// Returns a weights file of the plan `owner`, different for each `tag`.
  static std::string weightsText(const std::string &owner,
                                 const std::string &tag) {
    std::string text = "moec weights 3\nplan " + owner + "\nmodel m\n" + tag;
    text.resize(4096);
    return text + "weights";
  }
  static std::string hashOf(const std::string &weights) {
    return moert::contentHash(
        {reinterpret_cast<const uint8_t *>(weights.data()), 4096});
  }

  /// Returns a plan that names these weights.
  std::string planText(const PairPaths &paths, const std::string &weights) {
    moetest::SamplePlan sample;
    sample.builder.bytes();
    auto &file = *sample.builder.plan.files[0];
    if (weights.empty()) {
      file.kind = moert::fb::FileKind::Model;
      file.path = "/m.gguf";
    } else {
      file.path = paths.recorded;
      file.header_hash = hashOf(weights);
      file.header_bytes = 4096;
      file.bytes = std::max<uint64_t>(file.bytes, weights.size());
    }
    flatbuffers::FlatBufferBuilder builder;
    moert::fb::FinishPlanBuffer(
        builder, moert::fb::Plan::Pack(builder, &sample.builder.plan));
    return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
            builder.GetSize()};
  }

  PairPaths resolve(const std::string &plan, const std::string &weights = "") {
    auto paths = PairPaths::resolve(dir.file(plan), weights);
    EXPECT_TRUE(paths.isOk()) << paths.status().message();
    return *paths;
  }

  /// Returns an output for `path` that the rule allows.
  OutputFile file(const PairPaths &paths, const std::string &path,
                  const std::string &content) {
    auto target =
        path == paths.plan
            ? rule.target(path, moert::OutputKind::Plan)
            : rule.target(path, moert::OutputKind::Weights, paths.plan);
    EXPECT_TRUE(target.isOk()) << target.status().message();
    auto file = OutputFile::create(*std::move(target));
    EXPECT_TRUE(file.isOk()) << file.status().message();
    EXPECT_TRUE(file->write(content.data(), content.size()).isOk());
    return *std::move(file);
  }

  /// Writes files as a compilation to `paths` does; no weights for tag "".
  Status compile(const PairPaths &paths, const std::string &tag) {
    MOE_RETURN_IF_ERROR(preparePair(paths, rule).status());
    std::string weights = tag.empty() ? "" : weightsText(paths.owner, tag);
    std::optional<NewWeights> output;
    if (!weights.empty())
      output.emplace(
          NewWeights{file(paths, paths.weights, weights), hashOf(weights)});
    return commitPair(paths, rule,
                      file(paths, paths.plan, planText(paths, weights)),
                      std::move(output));
  }

  std::set<std::string> folder() {
    std::set<std::string> names;
    for (const auto &entry : stdfs::directory_iterator(dir.path()))
      names.insert(entry.path().filename());
    return names;
  }

  moetest::TempDir dir;
  moert::OutputRule rule;
};

TEST_F(PlanPairTest, NamesAreOfOnePlan) {
  EXPECT_EQ(resolve("s.fb").weights, dir.file("s.weights"));
  EXPECT_EQ(resolve("s.bin").weights, dir.file("s.bin.weights"));
  EXPECT_EQ(resolve("s").weights, dir.file("s.weights"));
  EXPECT_EQ(resolve(".fb").weights, dir.file(".fb.weights"));
  EXPECT_EQ(resolve("s.weights").weights, dir.file("s.weights.weights"));
  EXPECT_EQ(resolve("s.fb").recorded, "s.weights");
  EXPECT_EQ(resolve("s.fb").owner, "s.fb");
}

TEST_F(PlanPairTest, WeightsMayLieElsewhere) {
  stdfs::create_directory(dir.file("below"));
  stdfs::create_directory(dir.file("plans"));
  std::string real = stdfs::canonical(dir.path());
  EXPECT_EQ(resolve("p.fb", dir.file("below/w")).recorded, "below/w");
  EXPECT_EQ(resolve("p.fb", dir.file("below/w")).owner, real + "/p.fb");
  EXPECT_EQ(resolve("plans/p.fb", dir.file("w")).recorded, real + "/w");
  auto same = PairPaths::resolve(dir.file("p.fb"), dir.file("p.fb"));
  EXPECT_EQ(same.status().code(), StatusCode::Usage);
  dir.write("p.fb", "a plan");
  stdfs::create_hard_link(dir.file("p.fb"), dir.file("p2"));
  same = PairPaths::resolve(dir.file("p.fb"), dir.file("p2"));
  EXPECT_EQ(same.status().code(), StatusCode::Usage) << "by another name";
  auto nowhere = PairPaths::resolve(dir.file("p.fb"), dir.file("no/w"));
  EXPECT_EQ(nowhere.status().code(), StatusCode::Io);
  EXPECT_THAT(nowhere.status().message(), HasSubstr("no/w: cannot write"));
}

TEST_F(PlanPairTest, LinksAreFollowed) {
  stdfs::create_directory(dir.file("real"));
  stdfs::create_symlink("real/p.fb", dir.file("link.fb"));
  stdfs::create_symlink("real/elsewhere", dir.file("w"));
  std::string real = stdfs::canonical(dir.file("real"));
  PairPaths paths = resolve("link.fb");
  EXPECT_EQ(paths.plan, real + "/p.fb");
  EXPECT_EQ(paths.weights, real + "/p.weights");
  EXPECT_EQ(paths.recorded, "p.weights");
  paths = resolve("p.fb", dir.file("w"));
  EXPECT_EQ(paths.weights, real + "/elsewhere");
  EXPECT_EQ(paths.recorded, "w") << "the link, as it is what the user named";
  ASSERT_TRUE(compile(paths, "a").isOk());
  EXPECT_TRUE(stdfs::is_symlink(dir.file("w")));
  EXPECT_EQ(contentOf(dir.file("real/elsewhere")),
            weightsText(stdfs::canonical(dir.path()).string() + "/p.fb", "a"));
}

TEST_F(PlanPairTest, ReplacesAPair) {
  PairPaths paths = resolve("p.fb");
  for (const char *tag : {"a", "b", "b"}) {
    Status status = compile(paths, tag);
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(contentOf(paths.weights), weightsText("p.fb", tag));
    EXPECT_EQ(folder(), (std::set<std::string>{"p.fb", "p.weights"}));
  }
  // Without weights, the old ones stay, because another plan may be a copy of
  // the old one.
  EXPECT_EQ(weightsOfOldPlan(paths), paths.weights);
  ASSERT_TRUE(compile(paths, "").isOk());
  EXPECT_EQ(weightsOfOldPlan(paths), "");
  EXPECT_EQ(folder(), (std::set<std::string>{"p.fb", "p.weights"}));
}

TEST_F(PlanPairTest, ForeignFilesAreNotReplaced) {
  dir.write("p.weights", "my training data");
  Status status = compile(resolve("p.fb"), "a");
  EXPECT_EQ(status.code(), StatusCode::Usage);
  EXPECT_THAT(
      status.message(),
      HasSubstr("p.weights: is no file that moec or moert wrote, and a "
                "weights file would replace it; write elsewhere with -o "
                "or --weights-file, or replace it with --force"));
  EXPECT_EQ(contentOf(dir.file("p.weights")), "my training data");
  EXPECT_EQ(folder(), (std::set<std::string>{"p.weights"}));
}

// A file that cannot be read may be anything. Root can read everything, so the
// test uses up all file descriptors.
TEST_F(PlanPairTest, UnreadableFilesAreNotReplaced) {
  ASSERT_TRUE(compile(resolve("p.fb"), "a").isOk());
  PairPaths paths = resolve("p.fb");
  std::vector<int> taken;
  for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
    taken.push_back(fd);
  Status status =
      rule.target(paths.weights, moert::OutputKind::Weights, paths.plan)
          .status();
  for (int fd : taken)
    ::close(fd);
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_THAT(status.message(),
              HasSubstr("p.weights: cannot open: Too many open files"));
}

TEST_F(PlanPairTest, AnotherPlansWeightsAreNotReplaced) {
  ASSERT_TRUE(compile(resolve("s.fb"), "a").isOk());
  Status status = compile(resolve("s"), "b");
  EXPECT_EQ(status.code(), StatusCode::Usage);
  EXPECT_THAT(status.message(), HasSubstr("s.fb, which could not run without"));
  EXPECT_EQ(contentOf(dir.file("s.weights")), weightsText("s.fb", "a"));
  status = compile(resolve("t.fb", dir.file("s.weights")), "b");
  EXPECT_EQ(status.code(), StatusCode::Usage) << "by another way";
  // The file is free when the other plan does not use it any more, or is gone.
  ASSERT_TRUE(compile(resolve("s.fb"), "").isOk());
  EXPECT_TRUE(compile(resolve("s"), "b").isOk());
  stdfs::remove(dir.file("s"));
  EXPECT_TRUE(compile(resolve("s.fb"), "c").isOk());
  EXPECT_EQ(contentOf(dir.file("s.weights")), weightsText("s.fb", "c"));
}

// Packing takes hours, in which another plan may take over the name.
TEST_F(PlanPairTest, WeightsThatAnotherPlanTookMeanwhileAreNotReplaced) {
  PairPaths paths = resolve("s");
  ASSERT_TRUE(preparePair(paths, rule).isOk());
  std::string weights = weightsText("s", "b");
  OutputFile plan = file(paths, paths.plan, planText(paths, weights));
  std::optional<NewWeights> output;
  output.emplace(
      NewWeights{file(paths, paths.weights, weights), hashOf(weights)});
  ASSERT_TRUE(compile(resolve("s.fb"), "a").isOk());
  Status status = commitPair(paths, rule, std::move(plan), std::move(output));
  EXPECT_EQ(status.code(), StatusCode::Usage) << status.message();
  EXPECT_EQ(contentOf(dir.file("s.weights")), weightsText("s.fb", "a"));
  EXPECT_FALSE(stdfs::exists(paths.plan));
}

// The compilation was killed between renaming the plan and the weights.
TEST_F(PlanPairTest, CompletesWhatAKilledCompilationBegan) {
  PairPaths paths = resolve("p.fb");
  ASSERT_TRUE(compile(paths, "old").isOk());
  std::string fresh = weightsText("p.fb", "fresh");
  dir.write("p.fb", planText(paths, fresh));
  stdfs::path staged = moert::stagedWeights("p.weights", hashOf(fresh));
  dir.write(staged.string(), fresh);
  ASSERT_TRUE(preparePair(paths, rule).isOk());
  EXPECT_EQ(contentOf(paths.weights), fresh);
  EXPECT_EQ(folder(), (std::set<std::string>{"p.fb", "p.weights"}));
}

// Another compilation of this plan was killed after this one had begun.
TEST_F(PlanPairTest, ALaterKilledCompilationIsCleanedUp) {
  PairPaths paths = resolve("p.fb");
  ASSERT_TRUE(preparePair(paths, rule).isOk());
  std::string weights = weightsText("p.fb", "ours"),
              killed = weightsText("p.fb", "killed");
  OutputFile plan = file(paths, paths.plan, planText(paths, weights));
  std::optional<NewWeights> output;
  output.emplace(
      NewWeights{file(paths, paths.weights, weights), hashOf(weights)});
  dir.write("p.fb", planText(paths, killed));
  dir.write(moert::stagedWeights("p.weights", hashOf(killed)), killed);
  Status status = commitPair(paths, rule, std::move(plan), std::move(output));
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(contentOf(paths.weights), weights);
  EXPECT_EQ(folder(), (std::set<std::string>{"p.fb", "p.weights"}));
}

TEST_F(PlanPairTest, RemovesOnlyFilesOfKilledCompilations) {
  PairPaths paths = resolve("p.fb");
  ASSERT_TRUE(compile(paths, "old").isOk());
  ASSERT_TRUE(compile(resolve("q.fb"), "q").isOk());
  std::string left = weightsText("p.fb", "left"),
              others = weightsText("q.fb", "others");
  dir.write("p.weights.0123456789abcdef", left);
  const std::set<std::string> kept = {
      "p.weights.0123456789abcdeg",  "p.weights.0123456789abcde",
      "p.weights.0123456789abcdef0", "p.weights.0123456789ABCDEF",
      "xp.weights.0123456789abcdef", "p.weights.backup"};
  for (const std::string &name : kept)
    dir.write(name, left);
  dir.write("p.weights.1111111111111111", "not ours");
  dir.write("p.weights.2222222222222222", others);
  ASSERT_TRUE(compile(paths, "new").isOk());
  std::set<std::string> expected = kept;
  expected.insert({"p.fb", "p.weights", "q.fb", "q.weights",
                   "p.weights.1111111111111111", "p.weights.2222222222222222"});
  EXPECT_EQ(folder(), expected);
}

// A plan of another version cannot be read.
TEST_F(PlanPairTest, WeightsOfAnUnreadablePlanAreKept) {
  PairPaths paths = resolve("p.fb");
  std::string fresh = weightsText("p.fb", "fresh");
  std::string staged = moert::stagedWeights("p.weights", hashOf(fresh));
  dir.write(staged, fresh);
  dir.write("p.fb", "of tomorrow");
  ASSERT_TRUE(preparePair(paths, rule).isOk());
  EXPECT_EQ(folder(), (std::set<std::string>{"p.fb", staged}));
}

TEST_F(PlanPairTest, AFileInTheWayIsNotReplaced) {
  PairPaths paths = resolve("p.fb");
  ASSERT_TRUE(compile(paths, "a").isOk());
  std::string before = contentOf(paths.plan);
  std::string staged =
      moert::stagedWeights(paths.weights, hashOf(weightsText("p.fb", "b")));
  dir.write(stdfs::path(staged).filename().string(), "a user's");
  Status status = compile(paths, "b");
  EXPECT_EQ(status.code(), StatusCode::Usage);
  EXPECT_THAT(status.message(), HasSubstr("is in the way"));
  EXPECT_EQ(contentOf(staged), "a user's");
  EXPECT_EQ(contentOf(paths.plan), before);
  EXPECT_EQ(contentOf(paths.weights), weightsText("p.fb", "a"));
}

// The plan cannot be replaced, because a folder has its name now.
TEST_F(PlanPairTest, AFailureLeavesNothing) {
  PairPaths paths = resolve("p.fb");
  std::string weights = weightsText("p.fb", "a");
  OutputFile plan = file(paths, paths.plan, planText(paths, weights));
  std::optional<NewWeights> output;
  output.emplace(
      NewWeights{file(paths, paths.weights, weights), hashOf(weights)});
  stdfs::create_directory(paths.plan);
  Status status = commitPair(paths, rule, std::move(plan), std::move(output));
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_EQ(folder(), (std::set<std::string>{"p.fb"}));
}

TEST_F(PlanPairTest, CompilationsTakeTurns) {
  PairPaths paths = resolve("p.fb");
  int folder = ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  std::atomic<bool> done = false;
  std::jthread other([&] {
    EXPECT_TRUE(compile(paths, "a").isOk());
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  EXPECT_FALSE(stdfs::exists(paths.plan));
  ::close(folder);
  other.join();
  EXPECT_TRUE(stdfs::exists(paths.plan));
}

} // namespace
