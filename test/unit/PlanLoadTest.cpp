// A file that is no plan, or no plan for this build, is refused with the reason
// and the fix.
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

void expectFailure(const StatusOr<Plan> &plan, StatusCode code,
                   std::string_view message) {
  ASSERT_FALSE(plan.isOk()) << "expected: " << message;
  EXPECT_EQ(plan.status().code(), code) << plan.status().message();
  std::string shown = moetool::fullMessage(plan.status());
  EXPECT_NE(shown.find(message), std::string::npos)
      << "got:      " << shown << "\nexpected: " << message;
}

StatusOr<Plan> fromText(std::string_view text) {
  return Plan::fromBytes(
      {reinterpret_cast<const uint8_t *>(text.data()), text.size()}, "plan.fb");
}

TEST(PlanLoadTest, LoadsFromAFile) {
  TempDir folder;
  SamplePlan sample;
  std::string path = sample.builder.write(folder);
  StatusOr<Plan> plan = Plan::load(path);
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_EQ(plan->path(), path);
  EXPECT_EQ(plan->table().hidden(), SamplePlan::kHidden);
  EXPECT_EQ(plan->table().phases()->size(), 3u);
  EXPECT_TRUE(plan->checkMachine().isOk());
}

TEST(PlanLoadTest, FilesThatAreNoPlan) {
  TempDir folder;
  expectFailure(Plan::load(folder.file("missing.fb")), StatusCode::Io,
                "cannot open: No such file");
  expectFailure(Plan::load(folder.path()), StatusCode::Io, "is a directory");
  expectFailure(Plan::load("-"), StatusCode::Usage, "standard input");
  expectFailure(Plan::load(folder.write("empty.fb", "")),
                StatusCode::InvalidFile, "holds 0 bytes");
  expectFailure(Plan::load(folder.write("model.gguf", "GGUF\x03\0\0\0\0\0")),
                StatusCode::Usage, "model.gguf -o model.fb");
  expectFailure(fromText("<!DOCTYPE html><html><body>404</body></html>"),
                StatusCode::InvalidFile, "bytes 4 to 7 are \"CTYP\"");
  expectFailure(fromText("MOEPMOE"), StatusCode::InvalidFile, "holds 7 bytes");
}

// The flatbuffer verifier only asserts this limit, so it must not get the file.
TEST(PlanLoadTest, TwoGibibytes) {
  TempDir folder;
  std::string path = folder.write("large.fb", "12345678");
  ASSERT_EQ(::truncate(path.c_str(), off_t(1) << 31), 0);
  expectFailure(Plan::load(path), StatusCode::InvalidFile,
                "a plan is smaller than 2 GiB");
}

TEST(PlanLoadTest, TruncationAtEveryByte) {
  SamplePlan sample;
  std::vector<uint8_t> bytes = sample.builder.bytes();
  // The last bytes may be padding.
  for (size_t length = 0; length + 8 < bytes.size(); ++length) {
    // A copy of exactly this length, so that AddressSanitizer sees an overrun.
    std::vector<uint8_t> part(bytes.begin(), bytes.begin() + long(length));
    ASSERT_FALSE(Plan::fromBytes(part, "plan.fb").isOk()) << length;
  }
}

TEST(PlanLoadTest, RandomBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes(8 + random() % 400);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    if (i % 2 == 0) // Half of the files pass the first check.
      std::copy_n("MOEP", 4, bytes.begin() + 4);
    ASSERT_FALSE(Plan::fromBytes(bytes, "plan.fb").isOk());
  }
}

TEST(PlanLoadTest, OtherSchemaVersions) {
  SamplePlan sample;
  sample.builder.plan.schema_version = 99;
  sample.builder.plan.compiler = "moec 9.9";
  auto newer = Plan::fromBytes(sample.builder.bytes(), "dir/plan.fb");
  expectFailure(newer, StatusCode::WrongMachine,
                fmt::format("schema version 99 (written by \"moec 9.9\"), this "
                            "moert reads version {}; recompile the model",
                            kSchemaVersion));
  expectFailure(newer, StatusCode::WrongMachine,
                "moec compile MODEL -o dir/plan.fb");
  // The previous version has instructions with other parameters.
  for (unsigned older : {0u, kSchemaVersion - 1}) {
    sample.builder.plan.schema_version = older;
    expectFailure(Plan::fromBytes(sample.builder.bytes(), "plan.fb"),
                  StatusCode::WrongMachine,
                  "for this version\n  run, with the GGUF");
  }
}

TEST(PlanLoadTest, NamesCannotDriveTheTerminal) {
  SamplePlan sample;
  sample.builder.plan.weights[3]->name = "\x1b[2Jgone";
  sample.builder.plan.weights[3]->file = 7;
  expectFailure(Plan::fromBytes(sample.builder.bytes(), "plan.fb"),
                StatusCode::InvalidFile, "\"\\x1b[2Jgone\": has file 7");
}

} // namespace
