// moert info describes a plan correctly: a run of the plan confirms it.
#include "test/unit/MoertCliTest.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using moetest::contentOf;
using moetest::MoertCliTest;
using Json = nlohmann::json;

namespace {

class MoertInfoTest : public MoertCliTest {
protected:
  /// Returns the reason without the line with the suggested command.
  static std::string cause(const Json &info) {
    std::string why = info["why_not"];
    return why.substr(0, why.find('\n'));
  }
  /// Returns what info says, and checks that text and JSON agree.
  Json info(const std::string &flags = "") {
    Result text = moert("info " + plan_ + flags);
    EXPECT_EQ(text.exitCode, 0) << text.err;
    EXPECT_EQ(text.err, "");
    Result json = moert("info " + plan_ + flags + " --json");
    EXPECT_EQ(json.exitCode, 0) << json.err;
    Json object = Json::parse(json.out);
    bool runs = object["runs_here"];
    EXPECT_EQ(text.out.find("runs here    no: ") == std::string::npos, runs)
        << text.out;
    if (!runs) {
      EXPECT_NE(text.out.find(cause(object)), std::string::npos) << text.out;
    }
    return object;
  }

  /// Expects that info gives this reason, and run the same reason and exit
  /// code.
  void expectRefused(int exitCode, std::string_view reason,
                     const std::string &flags = "") {
    Json object = info(flags);
    EXPECT_EQ(object["runs_here"], false);
    std::string why = object.value("why_not", "");
    EXPECT_NE(why.find(reason), std::string::npos) << why;
    struct {
      std::string command, rest;
    } commands[] = {{"run ", " -p a"},
                    {"bench ", " -p 1 -n 0 -r 1 --no-limits"},
                    {"profile ", " -p 1 -n 0 --no-limits"},
                    {"perplexity ", " --file " + plan_},
                    {"logits ", " --tokens 3 --out " + folder_.file("x.npy")}};
    for (const auto &[command, rest] : commands) {
      Result result = moert(command + plan_ + flags + rest);
      EXPECT_EQ(result.exitCode, exitCode) << command << result.err;
      EXPECT_NE(result.err.find(cause(object)), std::string::npos)
          << command << result.err << why;
    }
  }

  /// Writes plan.fb only, as the object is now.
  void rewritePlan() {
    folder_.write("plan.fb", std::span<const uint8_t>(sample_.builder.pack()));
  }
};

TEST_F(MoertInfoTest, APlanThatRuns) {
  Result text = moert("info " + plan_);
  EXPECT_EQ(text.exitCode, 0) << text.err;
  EXPECT_NE(text.out.find("runs here    yes\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("this process may use"), std::string::npos)
      << text.out;
  Json object = info();
  EXPECT_EQ(object["context"], 24);
  EXPECT_EQ(object["phases"].size(), 3u);
  EXPECT_EQ(object["runs_here"], true);
  EXPECT_EQ(object["takes_text"], true);
  const Json &memory = object["memory"];
  EXPECT_EQ(memory["fits"], true);
  EXPECT_EQ(memory["kv_bytes"], sample_.builder.plan.devices[0]->kv_bytes);
  EXPECT_EQ(memory["needed_bytes"],
            memory["weight_bytes"].get<uint64_t>() +
                memory["kv_bytes"].get<uint64_t>() +
                memory["activation_bytes"].get<uint64_t>() +
                memory["worker_bytes"].get<uint64_t>());
  EXPECT_GE(memory["workers"], 1);
  EXPECT_GT(memory["available_bytes"], memory["needed_bytes"]);
}

TEST_F(MoertInfoTest, MissingWeights) {
  std::filesystem::remove(folder_.file("plan.weights"));
  expectRefused(4, "plan.weights: cannot open");
}

TEST_F(MoertInfoTest, TruncatedWeights) {
  std::string content = contentOf(folder_.file("plan.weights"));
  folder_.write("plan.weights", content.substr(0, content.size() / 2));
  expectRefused(7, "shorter than the plan expects");
}

TEST_F(MoertInfoTest, WeightsOfAnotherPlan) {
  std::string content = contentOf(folder_.file("plan.weights"));
  content[100] ^= 1;
  folder_.write("plan.weights", content);
  expectRefused(7, "plan.weights: ");
}

TEST_F(MoertInfoTest, AModelThatMoved) {
  std::filesystem::rename(folder_.file("plan.weights"),
                          folder_.file("moved.gguf"));
  auto &file = *sample_.builder.plan.files[0];
  file.kind = moetest::fb::FileKind::Model;
  file.path = "gone.gguf";
  rewritePlan();
  expectRefused(4, "gone.gguf: cannot open");
  std::string here = " --model " + folder_.file("moved.gguf");
  EXPECT_EQ(info(here)["runs_here"], true);
}

TEST_F(MoertInfoTest, APlanForAGpu) {
  if (std::filesystem::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "there may be one";
  auto &device = *sample_.builder.plan.devices[0];
  device.kind = moetest::fb::DeviceKind::Cuda;
  device.isa = "cuda";
  device.name = "gpu0";
  device.arch = 89;
  rewritePlan();
  expectRefused(7, "gpu0 is a GPU: this machine has no CUDA driver");
  // Only the host's memory is compared.
  EXPECT_EQ(info()["memory"]["fits"], true);
}

TEST_F(MoertInfoTest, MoreThanTheMachineHas) {
  // The verifier bounds it by 2^48.
  sample_.builder.plan.devices[0]->arena_bytes = uint64_t(1) << 47;
  rewritePlan();
  expectRefused(5, "needs 128.00 TiB of memory");
  Json memory = info()["memory"];
  EXPECT_EQ(memory["fits"], false);
  EXPECT_GT(memory["needed_bytes"], memory["available_bytes"]);
  // Activations cannot be paged.
  EXPECT_EQ(moert("run " + plan_ + " -p a --allow-paging").exitCode, 5);
}

/// The weights file ends with a hole, in which an additional weight lies that
/// nothing reads: it is larger than any memory, but needs no disk space.
class HugeWeightsTest : public MoertInfoTest {
protected:
  static constexpr uint64_t kHole = uint64_t(4) << 40;

  void SetUp() override {
    auto &plan = sample_.builder.plan;
    uint64_t end = plan.files[0]->bytes;
    std::error_code error;
    std::filesystem::resize_file(folder_.file("plan.weights"), end + kHole,
                                 error);
    if (error)
      GTEST_SKIP() << "no files of 4 TiB here: " << error.message();
    plan.files[0]->bytes = end + kHole;
    auto weight = std::make_unique<moetest::fb::WeightT>(*plan.weights[0]);
    weight->name = "unused";
    weight->offset = end;
    weight->outer = 1;
    weight->cols = int64_t(1) << 20;
    weight->row_stride = 4 * weight->cols;
    weight->rows = int64_t(kHole) / weight->row_stride;
    weight->outer_stride = int64_t(kHole);
    plan.weights.push_back(std::move(weight));
    rewritePlan();
  }
};

TEST_F(HugeWeightsTest, AreRefusedUnlessPagingIsAllowed) {
  expectRefused(5, "--allow-paging runs it all the same");
  Result plain = moert("run " + plan_ + " -p a -n 1 --no-mmap");
  EXPECT_EQ(plain.exitCode, 5);
  EXPECT_NE(plain.err.find("leave out --no-mmap"), std::string::npos);
  std::string paging = plan_ + " --allow-paging";
  for (const std::string &command :
       {"run " + paging + " -p a -n 1",
        "bench " + paging + " -p 1 -n 0 -r 1 --no-limits",
        "profile " + paging + " -p 1 -n 0 --no-limits",
        "logits " + paging + " --tokens 3 --out " + folder_.file("x.npy")}) {
    Result result = moert(command);
    EXPECT_EQ(result.exitCode, 0) << command << result.err;
    EXPECT_NE(result.err.find("note: memory does not hold all weights: about "),
              std::string::npos)
        << command << result.err;
    EXPECT_NE(result.err.find("from the disk for every token (an estimate"),
              std::string::npos);
  }
}

TEST_F(MoertInfoTest, WithoutATokenizer) {
  sample_.builder.plan.tokenizer.reset();
  rewritePlan();
  Json object = info();
  EXPECT_EQ(object["runs_here"], true);
  EXPECT_EQ(object["takes_text"], false);
  std::string why = object["why_no_text"];
  EXPECT_NE(why.find("has no tokenizer"), std::string::npos) << why;
  EXPECT_NE(
      moert("info " + plan_)
          .out.find(
              "runs here    on token ids alone: run, perplexity and tokenize "
              "need a tokenizer"),
      std::string::npos);
  Result run = moert("run " + plan_ + " -p a");
  EXPECT_EQ(run.exitCode, 6);
  EXPECT_NE(run.err.find(why), std::string::npos) << run.err;
  EXPECT_EQ(
      moert("logits " + plan_ + " --tokens 3 --out " + folder_.file("x.npy"))
          .exitCode,
      0);
}

TEST_F(MoertInfoTest, WithATokenizerThatIsNotSupported) {
  sample_.builder.plan.tokenizer->pre = "of-tomorrow";
  rewritePlan();
  Json object = info();
  EXPECT_EQ(object["takes_text"], false);
  EXPECT_NE(object["why_no_text"].get<std::string>().find("of-tomorrow"),
            std::string::npos);
}

} // namespace
