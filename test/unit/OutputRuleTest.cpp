//===- OutputRuleTest.cpp - What an output may replace --------------------===//

#include "runtime/plan/OutputRule.h"

#include "runtime/base/OutputFile.h"
#include "runtime/schema/PlanChecksum.h"
#include "test/support/SamplePlan.h"
#include "test/support/TempDir.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using moert::OutputKind;
using moert::OutputRule;
using moert::Status;
using moert::StatusCode;
using testing::HasSubstr;
namespace stdfs = std::filesystem;

namespace {

/// The shortest possible file of each kind.
const std::map<OutputKind, std::string> samples = {
    {OutputKind::Plan, std::string("\x10\0\0\0MOEP", 8) + "rest"},
    {OutputKind::Weights, "moec weights 3\nplan gone.fb\nmodel m\n"},
    {OutputKind::IrText, "// A comment.\n\n#a = loc(unknown)\nmodule {\n}\n"},
    {OutputKind::Remarks, std::string(moert::kRemarksHeader)},
    {OutputKind::Rules, std::string(moert::kRulesHeader) + "blk.*=cpu0\n"},
    {OutputKind::Target, R"({"name": "here", "devices": [{"kind": "cpu"}]})"},
    {OutputKind::Page, "<!doctype html>\n" + std::string(moert::kPageMark)},
    {OutputKind::RouterProfile, R"({"kind": "moert router profile"})"},
    {OutputKind::Trace, R"({"displayTimeUnit":"ms","traceEvents":[]})"},
    {OutputKind::Array, "\x93NUMPY\x01"},
    {OutputKind::Session, "MOERTSEQ"},
    {OutputKind::Conversation, R"([{"role": "user", "content": "Hello"}])"},
    {OutputKind::Model, "GGUF\x03"},
};

/// Files of users that may be in the same folder.
const char *const foreign[] = {
    "notes\n",
    "#!/bin/sh\necho module\n",
    "# module\nx = 1\n",
    "#define module 1\n",
    "modules are nice\n",
    "module of mine\n",
    "module mine;\nendmodule\n",
    "module.exports = {}\n",
    "<!doctype html>\n<title>Mine</title>\n",
    R"({"devices": [], "version": 2})",
    R"({"kind": "other"})",
    R"({"name": "a package"})",
    R"({"nested": {"messages": [], "traceEvents": []}})",
    R"(["role", "user"])",
    R"([{"name": "role"}])",
    "{",
    "blk.*=cpu0\n",
    "\x93NUM",
    "MOEP",
    "GGU",
};

class OutputRuleTest : public testing::Test {
protected:
  std::string file(std::string_view name) const { return dir_.file(name); }

  moetest::TempDir dir_;
};

TEST_F(OutputRuleTest, KnowsEveryKindByItsFirstBytes) {
  for (const auto &[kind, text] : samples)
    EXPECT_EQ(moert::kindOf(text), kind) << text;
  for (const char *text : foreign)
    EXPECT_EQ(moert::kindOf(text), std::nullopt) << text;
  // A long list before the key that shows the kind, and truncated text.
  std::string tools = R"({"tools": [)";
  for (int i = 0; i < 1000; ++i)
    tools += R"({"name": "a tool", "messages": [1, 2]}, )";
  EXPECT_EQ(moert::kindOf(tools), std::nullopt);
  tools += R"({}], "messages": [{"role": )";
  EXPECT_EQ(moert::kindOf(tools), OutputKind::Conversation);
  // Nesting that would overflow the stack of a recursive parser.
  EXPECT_EQ(moert::kindOf(std::string(1 << 20, '[')), std::nullopt);
}

TEST_F(OutputRuleTest, AnOutputReplacesItsOwnKindAndEmptyFiles) {
  for (const auto &[written, ignored] : samples) {
    if (written == OutputKind::Model)
      continue; // No command writes this kind.
    for (const auto &[there, text] : samples) {
      std::string path = dir_.write("there", text);
      Status status = OutputRule().target(path, written).status();
      EXPECT_EQ(status.isOk(), written == there) << status.message();
      if (written != there) {
        EXPECT_EQ(status.code(), StatusCode::Usage);
        EXPECT_EQ(status.message(),
                  path + ": is " + std::string(nameOf(there)) + ", and " +
                      std::string(nameOf(written)) + " would replace it; " +
                      (written == OutputKind::Weights
                           ? "write elsewhere with -o or --weights-file"
                           : "choose another output") +
                      ", or replace it with --force");
      }
      EXPECT_TRUE(OutputRule(/*force=*/true).target(path, written).isOk());
    }
    for (const char *text : foreign)
      EXPECT_FALSE(OutputRule().target(dir_.write("there", text), written));
    EXPECT_TRUE(OutputRule().target(dir_.write("empty", ""), written).isOk());
    EXPECT_TRUE(OutputRule().target(file("new"), written).isOk());
  }
}

TEST_F(OutputRuleTest, WithoutAForceOptionNoneIsSuggested) {
  std::string path = dir_.write("notes", "mine");
  EXPECT_EQ(OutputRule(false, "")
                .target(path, OutputKind::Session)
                .status()
                .message(),
            path + ": is no file that moec or moert wrote, and a session would "
                   "replace it; choose another output");
}

TEST_F(OutputRuleTest, InputsAreNeverReplaced) {
  std::string path =
      dir_.write("r.json", samples.at(OutputKind::RouterProfile));
  stdfs::create_symlink("r.json", file("link"));
  for (bool force : {false, true}) {
    OutputRule rule(force);
    rule.addInput("the profile", path);
    EXPECT_THAT(
        rule.target(file("link"), OutputKind::RouterProfile).status().message(),
        HasSubstr("writing there would destroy the profile"));
  }
}

/// Returns the sample plan's bytes, with m.gguf or these weights as its file.
std::string planNaming(moert::fb::FileKind kind, const std::string &path) {
  moetest::SamplePlan sample;
  sample.builder.bytes();
  auto &file = *sample.builder.plan.files[0];
  file.kind = kind;
  file.path = path;
  flatbuffers::FlatBufferBuilder builder;
  moert::fb::FinishPlanBuffer(
      builder, moert::fb::Plan::Pack(builder, &sample.builder.plan));
  std::vector<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetBufferPointer() + builder.GetSize());
  moert::setPlanChecksum(bytes);
  return {bytes.begin(), bytes.end()};
}

TEST_F(OutputRuleTest, FilesThatAPlanNeedsAreNeverReplaced) {
  std::string plan = dir_.write(
      "p.fb", planNaming(moert::fb::FileKind::Model, "models/m.gguf"));
  stdfs::create_directory(file("models"));
  dir_.write("models/m.gguf", samples.at(OutputKind::Model));
  auto loaded = moert::Plan::load(plan);
  ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
  for (bool force : {false, true}) {
    OutputRule rule(force);
    rule.addPlan(*loaded);
    for (const char *name : {"p.fb", "models/m.gguf"})
      EXPECT_THAT(rule.target(file(name), OutputKind::Page).status().message(),
                  HasSubstr("writing there would destroy the plan"));
  }
}

TEST_F(OutputRuleTest, WeightsThatTheirPlanNeedsAreNeverReplaced) {
  std::string plan =
      dir_.write("p.fb", planNaming(moert::fb::FileKind::Packed, "p.weights"));
  std::string weights =
      dir_.write("p.weights", "moec weights 3\nplan p.fb\nmodel m\n");
  ASSERT_TRUE(moert::Plan::load(plan).isOk());
  for (bool force : {false, true})
    for (const auto &[kind, ignored] : samples)
      EXPECT_THAT(OutputRule(force).target(weights, kind).status().message(),
                  HasSubstr("p.weights: holds the weights of "));
  // A compilation of the plan itself may replace them. If the plan is gone, any
  // compilation may.
  EXPECT_TRUE(OutputRule().target(weights, OutputKind::Weights, plan).isOk());
  stdfs::remove(plan);
  EXPECT_TRUE(OutputRule().target(weights, OutputKind::Weights).isOk());
}

TEST_F(OutputRuleTest, ASessionOrWeightsAreNoStream) {
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  for (OutputKind kind : {OutputKind::Session, OutputKind::Weights})
    for (const std::string &path :
         {file("fifo"), std::string("/dev/null"), std::string("-")}) {
      Status status = OutputRule(true).target(path, kind).status();
      EXPECT_EQ(status.code(), StatusCode::Usage);
      EXPECT_THAT(status.message(), HasSubstr("is not written to a stream"));
    }
  EXPECT_TRUE(OutputRule().target(file("fifo"), OutputKind::Plan).isOk());
  EXPECT_TRUE(OutputRule().target("/dev/null", OutputKind::Plan).isOk());
}

// The file may have been written during the hours that a command ran.
TEST_F(OutputRuleTest, AsksAgainBeforeItReplaces) {
  std::string path = file("p.npy");
  auto target = OutputRule().target(path, OutputKind::Array);
  ASSERT_TRUE(target.isOk());
  auto output = moert::OutputFile::create(*target);
  ASSERT_TRUE(output.isOk());
  ASSERT_TRUE(output->write("\x93NUMPY", 6).isOk());
  dir_.write("p.npy", "somebody's notes");
  EXPECT_EQ(output->commit().code(), StatusCode::Usage);
  EXPECT_EQ(stdfs::file_size(path), 16u);
}

} // namespace
