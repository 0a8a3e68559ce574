// What a plan suggests keeps what it records, and sets what mends it. Whether
// the commands work is test/compile/hints.py's.
#include "runtime/Recompile.h"

#include "runtime/Plan.h"
#include "test/support/SamplePlan.h"

#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;

namespace {

class RecompileTest : public ::testing::Test {
protected:
  RecompileTest() {
    sample_.builder.plan.options =
        "--target-file 'my machines/a.json' --ctx 24 --output evil --mla none";
  }

  Plan plan() {
    return *Plan::fromBytes(sample_.builder.bytes(), "dir/plan.fb");
  }

  SamplePlan sample_;
  const std::string lead_ = "\n  run, with the GGUF file for MODEL: ";
};

TEST_F(RecompileTest, KeepsKnownOptionsAndFindsFilesFromHere) {
  EXPECT_EQ(recompileLine(plan().table(), "dir/plan.fb"),
            lead_ + "moec compile MODEL --target-file 'dir/my machines/a.json' "
                    "--ctx 24 --mla none -o dir/plan.fb");
  std::string model = "m.gguf";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb", {}, {&model, 1}),
            "\n  run: moec compile m.gguf --target-file 'my machines/a.json' "
            "--ctx 24 --mla none -o plan.fb");
}

TEST_F(RecompileTest, ANamedMachineReplacesADescribedOne) {
  OptionChange native{"--target", "native"};
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb", {&native, 1}),
            lead_ + "moec compile MODEL --ctx 24 --mla none --target native "
                    "-o plan.fb");
}

TEST_F(RecompileTest, OptionsThatCannotBeReadAreNone) {
  sample_.builder.plan.options = "--ctx 'open";
  EXPECT_EQ(recompileLine(plan().table(), "plan.fb"),
            lead_ + "moec compile MODEL -o plan.fb");
}

TEST_F(RecompileTest, ContextsStayWithinTheModels) {
  auto hint = [&](int64_t tokens) {
    return contextHint(plan().table(), "plan.fb", tokens);
  };
  EXPECT_NE(hint(25).find("--ctx 48 "), std::string::npos) << hint(25);
  EXPECT_NE(hint(100).find("--ctx 100 "), std::string::npos) << hint(100);
  sample_.builder.plan.trained_context = 40;
  EXPECT_NE(hint(25).find("--ctx 40 "), std::string::npos) << hint(25);
  EXPECT_EQ(hint(41), "; the model was trained for 40, so the text must be "
                      "shorter");
}

TEST_F(RecompileTest, MemoryIsSavedWhereItIsSpent) {
  constexpr uint64_t weights = 1000, rest = 100;
  auto expectHint = [&](uint64_t available, std::string_view option) {
    std::string hint =
        memoryHint(plan().table(), "plan.fb", rest, weights, available);
    EXPECT_NE(hint.find(option), std::string::npos) << hint;
  };
  uint64_t cache = sample_.builder.plan.devices[0]->kv_bytes;
  expectHint(rest + weights + cache / 2, "--ctx 12 ");
  // Beside all weights there is room for no context worth having: not for a
  // twelfth of it, as for nothing at all. They are paged then.
  ASSERT_GT(cache / 12 * 11, weights);
  expectHint(rest + weights + cache / 12, "--ctx 16 ");
  expectHint(rest + cache / 2, "--ctx 12 ");
  // Nor is there without them: a step takes too much.
  expectHint(rest + cache / 12, "--ubatch 1 ");
  expectHint(rest, "--ubatch 1 ");
  sample_.phase("prefill").max_tokens = 1;
  expectHint(rest + cache / 12, "--ctx 2 ");
  expectHint(rest, "use a machine with more memory");
}

} // namespace
