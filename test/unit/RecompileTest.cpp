// A plan's suggested command keeps the recorded options, and sets the option
// that solves the problem. test/compile/hints.py runs the commands.
#include "runtime/plan/Recompile.h"

#include "runtime/plan/Plan.h"
#include "test/support/SamplePlan.h"
#include "test/support/TempDir.h"
#include "tools/common/Remedies.h"

#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

std::string recompileLine(const fb::Plan &plan, std::string_view path,
                          std::vector<OptionChange> changes = {},
                          std::span<const std::string> models = {}) {
  Remedy remedy = recompile(Suggestion::ForThisVersion, plan, path,
                            std::move(changes), models);
  return remedy.text() + moetool::ending(remedy);
}

/// Returns "x" and the advice about a context that does not hold `tokens`.
std::string contextHint(const fb::Plan &plan, int64_t tokens) {
  Status failure(StatusCode::DoesNotFit, "x");
  return moetool::fullMessage(
      adviseContext(std::move(failure), plan, "plan.fb", tokens));
}

std::string memoryHint(const fb::Plan &plan, uint64_t rest, uint64_t weights,
                       uint64_t available) {
  Status failure(StatusCode::DoesNotFit, "x");
  return moetool::fullMessage(adviseMemory(std::move(failure), plan, "plan.fb",
                                           rest, weights, available));
}

class RecompileTest : public ::testing::Test {
protected:
  RecompileTest() {
    sample_.builder.plan.options =
        "--ctx 24 --output evil --mla none --place 'blk.*=cpu0'";
  }

  Plan plan() {
    return *Plan::fromBytes(sample_.builder.bytes(), "dir/plan.fb");
  }

  /// Gives one layer a cache with this many pages.
  void setCache(int32_t context, int64_t pages) {
    auto &plan = sample_.builder.plan;
    plan.context = context;
    plan.kv[0]->capacity = pages * 64;
    plan.devices[0]->kv_bytes = uint64_t(pages) * page_;
  }

  SamplePlan sample_;
  /// 64 rows of 8 + 4 floats.
  const uint64_t page_ = 64 * 12 * 4;
  const std::string lead_ =
      "recompile the model for this version\n  run, with the GGUF file for "
      "MODEL: ";
};

TEST_F(RecompileTest, KeepsOnlyOptionsThatShapedThePlan) {
  EXPECT_EQ(recompileLine(plan().table(), "dir/plan.fb"),
            lead_ + "moec compile MODEL --ctx 24 --mla none --place "
                    "'blk.*=cpu0' -o dir/plan.fb");
  std::string model = "m.gguf";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb", {}, {&model, 1}),
            "recompile the model for this version\n  run: moec compile m.gguf "
            "--ctx 24 --mla none --place "
            "'blk.*=cpu0' -o plan.fb");
}

TEST_F(RecompileTest, LeavesOutDefaults) {
  sample_.builder.plan.options =
      "--target native --ctx 0 --kv-type auto --weights pack";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb"),
            lead_ + "moec compile MODEL --weights pack -o plan.fb");
}

TEST_F(RecompileTest, FindsFilesFromHere) {
  TempDir folder;
  std::string planPath = folder.path() + "/plan.fb";
  sample_.builder.plan.options = "--target-file 'my machine.json' --ctx 24";
  EXPECT_EQ(
      recompileLine(plan().table(), planPath),
      "recompile the model for this version, with the options that moec "
      "explain lists: no command can be suggested, since --target-file '" +
          folder.path() + "/my machine.json' is not there any more");
  folder.write("my machine.json", "{}");
  EXPECT_EQ(recompileLine(plan().table(), planPath),
            lead_ + "moec compile MODEL --target-file '" + folder.path() +
                "/my machine.json' --ctx 24 -o " + planPath);
  // A named machine replaces a description and its path.
  OptionChange named{"--target", "xeon"};
  EXPECT_EQ(recompileLine(plan().table(), planPath, {named}),
            lead_ + "moec compile MODEL --target xeon --ctx 24 -o " + planPath);
}

TEST_F(RecompileTest, StreamsCannotBeReadAgain) {
  sample_.builder.plan.options = "--router-profile - --ctx 24";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb"),
            "recompile the model for this version, with the options that moec "
            "explain lists: no command can be suggested, since what "
            "--router-profile read from a stream "
            "is not kept");
}

TEST_F(RecompileTest, RulesAreForTheMachineThatTheyName) {
  sample_.builder.plan.options =
      "--target 2x3090+xeon --vram-limit 8GiB --numa one --n-gpu-layers 3 "
      "--place 'blk.*=cpu1' --place 'prefill:*=cpu0' --override-tensor x=CPU";
  OptionChange longer{"--ctx", "48"}, native{"--target", "native"};
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb", {longer}),
            lead_ + "moec compile MODEL --target 2x3090+xeon --vram-limit 8GiB "
                    "--numa one --ctx 48 --place 'blk.*=cpu1' --place "
                    "'prefill:*=cpu0' --override-tensor x=CPU "
                    "--n-gpu-layers 3 -o plan.fb");
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb", {native}),
            lead_ + "moec compile MODEL -o plan.fb");
}

TEST_F(RecompileTest, UnreadableOptionsAreLeftOut) {
  sample_.builder.plan.options = "--ctx 'open";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb"),
            lead_ + "moec compile MODEL -o plan.fb");
}

TEST_F(RecompileTest, ContextsStayWithinTheModels) {
  auto hint = [&](int64_t tokens) {
    return contextHint(plan().table(), tokens);
  };
  EXPECT_NE(hint(25).find("--ctx 48 "), std::string::npos) << hint(25);
  EXPECT_NE(hint(100).find("--ctx 100 "), std::string::npos) << hint(100);
  sample_.builder.plan.trained_context = 40;
  EXPECT_NE(hint(25).find("--ctx 40 "), std::string::npos) << hint(25);
  EXPECT_EQ(hint(41), "x; the model was trained for 40, so the text must be "
                      "shorter");
}

TEST_F(RecompileTest, SuggestsTheOptionThatSavesEnough) {
  constexpr uint64_t rest = 100;
  const uint64_t weights = 5 * page_;
  auto expectHint = [&](uint64_t available, std::string_view option) {
    std::string hint = memoryHint(plan().table(), rest, weights, available);
    EXPECT_NE(hint.find(option), std::string::npos) << hint;
  };
  // Ten pages, all of which one context takes.
  setCache(640, 10);
  expectHint(rest + weights + 8 * page_, "--ctx 512 ");
  // Beside all weights there is no room for a useful context, so weights are
  // paged.
  expectHint(rest + weights + 2 * page_, "--ctx 448 ");
  expectHint(rest + 6 * page_, "--ctx 384 ");
  // Without the weights there is no room either, because a step takes too much.
  expectHint(rest + 2 * page_, "--ubatch 1 ");
  expectHint(rest, "recompile with fewer tokens in a step\n");
  sample_.phase("prefill").max_tokens = 1;
  sample_.phase("prefill").min_tokens = 1;
  expectHint(rest + 2 * page_, "--ctx 128 ");
  expectHint(rest, "use a machine with more memory");
}

TEST_F(RecompileTest, FewerSequencesBeforeASmallerContext) {
  auto hint = [&](uint64_t pages) {
    return memoryHint(plan().table(), 100, 0, 100 + pages * page_);
  };
  sample_.builder.plan.options = "--ctx 100 --sequences 8";
  sample_.addSequences(8);
  setCache(100, 16);
  EXPECT_NE(hint(15).find("recompile with fewer sequences"), std::string::npos)
      << hint(15);
  EXPECT_NE(hint(15).find("--ctx 100 --sequences 7 -o"), std::string::npos)
      << hint(15);
  // One sequence is the default, which is left out.
  EXPECT_NE(hint(2).find("MODEL --ctx 100 -o"), std::string::npos) << hint(2);
  // One page does not suffice for two sequences.
  EXPECT_NE(hint(1).find("--ubatch"), std::string::npos) << hint(1);
  // Contexts of ten pages may be shortened if steps cannot be.
  setCache(640, 80);
  EXPECT_NE(hint(9).find("--ubatch"), std::string::npos) << hint(9);
  for (const char *phase : {"prefill", "batch"})
    sample_.phase(phase).min_tokens = 1;
  sample_.phase("prefill").max_tokens = 1;
  EXPECT_NE(hint(9).find("--ctx 64 --sequences 8 "), std::string::npos)
      << hint(9);
}

TEST_F(RecompileTest, BudgetsHoldTheContext) {
  sample_.builder.plan.options = "--ctx 100 --kv-budget 24KiB";
  setCache(100, 8);
  EXPECT_EQ(page_, 3072u);
  auto larger = [&](int64_t tokens) {
    return contextHint(plan().table(), tokens);
  };
  EXPECT_NE(larger(101).find("--ctx 200 --kv-budget 24KiB "), std::string::npos)
      << larger(101);
  EXPECT_NE(larger(513).find("--ctx 513 --kv-budget 27KiB "), std::string::npos)
      << larger(513);
  auto smaller = [&](uint64_t pages) {
    return memoryHint(plan().table(), 100, 0, 100 + pages * page_);
  };
  EXPECT_NE(smaller(5).find("recompile with a smaller cache"),
            std::string::npos)
      << smaller(5);
  EXPECT_NE(smaller(5).find("--ctx 100 --kv-budget 15KiB "), std::string::npos)
      << smaller(5);
  EXPECT_NE(smaller(1).find("--ctx 64 --kv-budget 3KiB "), std::string::npos)
      << smaller(1);
}

} // namespace
