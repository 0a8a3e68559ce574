// The command line as users and scripts see it: output, errors, exit codes.
#include "test/unit/MoertCliTest.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

using moetest::contentOf;
using moetest::MoertCliTest;
using moetest::SamplePlan;

namespace {

TEST_F(MoertCliTest, RunPrintsTextOnlyAndTheSameForASeed) {
  Result first = moert("run " + plan_ + " -p 'the a' -n 8 --seed 3");
  EXPECT_EQ(first.exitCode, 0) << first.err;
  EXPECT_FALSE(first.out.empty());
  EXPECT_EQ(first.err, ""); // Statistics are only for terminals.
  EXPECT_EQ(moert("run " + plan_ + " -p 'the a' -n 8 --seed 3").out, first.out);
  Result other = moert("run " + plan_ + " -p 'the a' -n 8 --seed 4");
  EXPECT_NE(other.out, first.out);
}

TEST_F(MoertCliTest, RunJsonAndStats) {
  std::string file = folder_.write("prompt.txt", "the end.");
  Result result = moert("run " + plan_ + " -f " + file +
                        " -n 4 --temp 0 --ignore-eos --json --stats");
  ASSERT_EQ(result.exitCode, 0) << result.err;
  auto object = nlohmann::json::parse(result.out);
  EXPECT_EQ(object["prompt"], "the end.");
  EXPECT_EQ(object["generated_tokens"], 4);
  EXPECT_EQ(object["prompt_tokens"], 7);
  EXPECT_EQ(object["stop_reason"], "length");
  EXPECT_NE(result.err.find("generated:     4 tokens"), std::string::npos)
      << result.err;
}

// The report does not depend on how the result is shown or on statistics.
TEST_F(MoertCliTest, ATruncatedTextIsReported) {
  std::string run = "run " + plan_ + " -p a --temp 0 --ignore-eos ";
  for (const char *how : {"", "--stats", "--json", "--json --stats"}) {
    Result result = moert(run + how);
    ASSERT_EQ(result.exitCode, 0) << result.err;
    size_t note = result.err.find("note: the text ends because the context of "
                                  "24 tokens is full");
    ASSERT_NE(note, std::string::npos) << how << "\n" << result.err;
    EXPECT_EQ(result.err.find("is full", note + 80), std::string::npos);
    if (std::string_view(how).starts_with("--json")) {
      auto object = nlohmann::json::parse(result.out);
      EXPECT_EQ(object["stop_reason"], "context");
      EXPECT_NE(object["note"].get<std::string>().find("context of 24"),
                std::string::npos);
    }
  }
  Result shorter = moert(run + "-n 3 --json");
  EXPECT_EQ(shorter.err, "");
  EXPECT_FALSE(nlohmann::json::parse(shorter.out).contains("note"));
}

TEST_F(MoertCliTest, StopStringsEndTheText) {
  Result all = moert("run " + plan_ + " -p the -n 12 --temp 0 --ignore-eos");
  ASSERT_GT(all.out.size(), 4u);
  std::string stop = all.out.substr(2, 1);
  Result cut = moert("run " + plan_ +
                     " -p the -n 12 --temp 0 --ignore-eos "
                     "--stop '~never~' --stop '" +
                     stop + "'");
  EXPECT_EQ(cut.exitCode, 0) << cut.err;
  EXPECT_EQ(cut.out, all.out.substr(0, all.out.find(stop)) + "\n");
}

TEST_F(MoertCliTest, LogitsWritesAnNpyFile) {
  std::string npy = folder_.file("x.npy");
  for (const char *step : {"", " --step"}) {
    Result result =
        moert("logits " + plan_ + " --tokens 3,10,17 --out " + npy + step);
    ASSERT_EQ(result.exitCode, 0) << result.err;
    std::string content = contentOf(npy);
    ASSERT_EQ(content.size(), 128 + 3 * 40 * 4u);
    EXPECT_EQ(content.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    EXPECT_NE(content.find("'shape': (3, 40)"), std::string::npos);
    auto expected = sample_.reference({3, 10, 17});
    for (size_t t = 0; t < 3; ++t)
      for (size_t i = 0; i < 40; ++i) {
        float value;
        std::memcpy(&value, content.data() + 128 + (t * 40 + i) * 4, 4);
        ASSERT_NEAR(value, expected[t][i], 1e-4) << t << ", " << i;
      }
  }
}

TEST_F(MoertCliTest, FailedLogitsLeaveNoFile) {
  std::string npy = folder_.file("x.npy");
  Result result = moert("logits " + plan_ + " --tokens 3,40 --out " + npy);
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_NE(result.err.find("token 40 at index 1 is outside"),
            std::string::npos)
      << result.err;
  for (const auto &entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().string().find("x.npy"), std::string::npos);
  EXPECT_EQ(
      moert("logits " + plan_ + " --tokens 3 --out /nowhere/x.npy").exitCode,
      4);
}

// A router row with NaN: every command that computes names it.
TEST_F(MoertCliTest, NanIsReported) {
  sample_.fillRow("router", 0, 2, NAN);
  sample_.builder.write(folder_);
  std::string text = folder_.write("text", "the cat sat on the mat");
  std::string npy = folder_.file("x.npy");
  for (const std::string &command :
       {"run " + plan_ + " -p 'the a' -n 4", // With prefill.
        "run " + plan_ + " -p '' -n 4",      // With decode alone.
        "run " + plan_ + " -p 'the a' -n 4 --json",
        "perplexity " + plan_ + " --file " + text + " --ctx 8",
        "perplexity " + plan_ + " --file " + text + " --ctx 8 --json",
        "logits " + plan_ + " --tokens 3,10,17 --out " + npy,
        "logits " + plan_ + " --tokens 3,10,17 --step --out " + npy,
        "bench " + plan_ + " -p 6 -n 3 -r 1 --no-limits",
        "profile " + plan_ + " -p 6 -n 3 --no-limits"}) {
    SCOPED_TRACE(command);
    Result result = moert(command);
    EXPECT_EQ(result.exitCode, 3);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("router holds values that are not finite in 1 of "
                              "4 rows, the first in row 2"),
              std::string::npos)
        << result.err;
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 5);
    EXPECT_FALSE(std::filesystem::exists(npy));
  }
}

TEST_F(MoertCliTest, TokenizePrintsAJsonList) {
  EXPECT_EQ(moert("tokenize " + plan_ + " --text 'the a.'").out,
            "[0, 5, 2, 6, 3]\n");
  EXPECT_EQ(moert("tokenize " + plan_ + " --text 'the a.' --no-bos").out,
            "[5, 2, 6, 3]\n");
  EXPECT_EQ(moert("tokenize " + plan_ + " --text '' --no-bos").out, "[]\n");
  EXPECT_EQ(moert("tokenize " + plan_).exitCode, 2);
}

TEST_F(MoertCliTest, PerplexityOfTheReference) {
  // Two windows of 8 tokens and a shorter one; scores begin at token 5 of each.
  std::string text = "the cat sat on the mat";
  Result ids = moert("tokenize " + plan_ + " --text '" + text + "'");
  auto tokens = nlohmann::json::parse(ids.out).get<std::vector<int32_t>>();
  ASSERT_GE(tokens.size(), 16u);
  double sum = 0;
  size_t count = 0;
  for (size_t window = 0; window < tokens.size() / 8; ++window) {
    std::vector<int32_t> piece(tokens.begin() + long(window) * 8,
                               tokens.begin() + long(window) * 8 + 8);
    piece[0] = 0;
    auto logits = sample_.reference(piece);
    for (size_t t = 4; t < 7; ++t, ++count) {
      double total = 0;
      for (double logit : logits[t])
        total += std::exp(logit);
      sum += std::log(total) - logits[t][size_t(piece[t + 1])];
    }
  }
  std::string file = folder_.write("text", text);
  Result result =
      moert("perplexity " + plan_ + " --file " + file + " --ctx 8 --json");
  ASSERT_EQ(result.exitCode, 0) << result.err;
  auto object = nlohmann::json::parse(result.out);
  EXPECT_NEAR(object["perplexity"].get<double>(), std::exp(sum / double(count)),
              1e-3);
  EXPECT_EQ(object["tokens_scored"], count);
  EXPECT_GT(object["standard_error"].get<double>(), 0);

  Result large =
      moert("perplexity " + plan_ + " --file " + file + " --ctx 4096");
  EXPECT_EQ(large.exitCode, 5);
  EXPECT_NE(large.err.find("--ctx 4096"), std::string::npos);
}

TEST_F(MoertCliTest, BenchHasLlamaBenchsColumns) {
  std::string bench =
      "bench " + plan_ + " -p 6 -n 3 -d 0,2 -r 2 -t 1 --no-limits -o ";
  Result json = moert(bench + "json");
  ASSERT_EQ(json.exitCode, 0) << json.err;
  auto list = nlohmann::json::parse(json.out);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0]["n_prompt"], 6);
  EXPECT_EQ(list[0]["n_gen"], 0);
  EXPECT_EQ(list[1]["n_gen"], 3);
  EXPECT_EQ(list[3]["n_depth"], 2);
  for (const char *key :
       {"avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
        "samples_ts", "model_type", "model_size", "model_n_params", "n_threads",
        "n_ubatch", "backends", "test_time"})
    EXPECT_TRUE(list[0].contains(key)) << key;
  EXPECT_EQ(list[0]["samples_ts"].size(), 2u);
  EXPECT_GT(list[0]["avg_ts"].get<double>(), 0);

  Result table = moert(bench + "md");
  for (const char *cell : {"| model ", "t/s |", " pp6 |", "tg3 @ d2 |", "±"})
    EXPECT_NE(table.out.find(cell), std::string::npos) << table.out;
  Result csv = moert(bench + "csv");
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 5);

  Result deep = moert("bench " + plan_ + " -p 512 -n 0 -r 1 --no-limits");
  EXPECT_EQ(deep.exitCode, 5);
  EXPECT_NE(deep.err.find("--ctx 512"), std::string::npos) << deep.err;
}

TEST_F(MoertCliTest, BenchMeasuresWorkAgainstTheLimits) {
  Result json =
      moert("bench " + plan_ + " -p 6 -n 3 -pg 4,2 -r 1 -t 1 -o json");
  ASSERT_EQ(json.exitCode, 0) << json.err;
  auto list = nlohmann::json::parse(json.out);
  ASSERT_EQ(list.size(), 3u);
  const auto &prompt = list[0], &gen = list[1], &both = list[2];

  // Weights are F32: a token reads the following elements, 4 bytes each.
  using S = SamplePlan;
  double perHead = S::kLatent * (S::kNope + S::kValue);
  double matrices =
      S::kHidden *
          (S::kHeads * (S::kNope + S::kRope)) + // Products of the queries.
      S::kHidden * (S::kLatent + S::kRope) +
      S::kHeads * perHead + S::kHeads * S::kValue * S::kHidden +
      3 * S::kHidden * S::kDenseWidth + S::kHidden * S::kExperts +
      3 * S::kHidden * S::kExpertWidth *
          (S::kTopK + 1); // Products of the chosen experts and of a shared one.
  double head = S::kHidden * S::kVocab;
  // Five tokens see 15 decompressed rows, and one more six latents.
  double attention = 15 * S::kHeads * (S::kNope + S::kRope + S::kValue) +
                     6 * S::kHeads * (2 * S::kLatent + S::kRope);
  double opsPerToken = 2 * (matrices + attention / 6 + head / 6);
  EXPECT_NEAR(prompt["ops_per_token"].get<double>() / opsPerToken, 1, 1e-9);
  EXPECT_TRUE(prompt["weight_bytes_per_token"].is_null());
  double tops = opsPerToken * prompt["avg_ts"].get<double>();
  EXPECT_NEAR(prompt["tops"].get<double>() * 1e12 / tops, 1, 1e-9);
  EXPECT_TRUE(prompt["read_gbps"].is_null());
  EXPECT_NEAR(prompt["peak_fraction"].get<double>(),
              prompt["tops"].get<double>() / prompt["limit_tops"].get<double>(),
              1e-9);

  // Other bytes are a row of the embedding, norms and biases.
  double least = 4 * (matrices + head) * gen["avg_ts"].get<double>() / 1e9;
  EXPECT_GT(gen["read_gbps"].get<double>(), least);
  EXPECT_LT(gen["read_gbps"].get<double>(), 1.05 * least);
  EXPECT_TRUE(gen["tops"].is_null());
  EXPECT_NEAR(gen["bandwidth_fraction"].get<double>(),
              gen["read_gbps"].get<double>() /
                  gen["limit_read_gbps"].get<double>(),
              1e-9);
  // The mean of several runs is below the best of them.
  EXPECT_LT(gen["sustained_read_gbps"].get<double>(),
            gen["limit_read_gbps"].get<double>());
  EXPECT_NEAR(gen["sustained_bandwidth_fraction"].get<double>(),
              gen["read_gbps"].get<double>() /
                  gen["sustained_read_gbps"].get<double>(),
              1e-9);
  EXPECT_LE(prompt["sustained_tops"].get<double>(),
            prompt["limit_tops"].get<double>());
  EXPECT_TRUE(prompt["sustained_bandwidth_fraction"].is_null());

  EXPECT_EQ(both["n_prompt"], 4);
  EXPECT_EQ(both["n_gen"], 2);
  EXPECT_TRUE(both["bandwidth_fraction"].is_null());
  EXPECT_TRUE(both["peak_fraction"].is_null());
  EXPECT_TRUE(both["sustained_read_gbps"].is_null());

  Result table = moert("bench " + plan_ + " -p 0 -n 1 -pg 4,2 -r 1 -t 1");
  EXPECT_NE(table.out.find(" pp4+tg2 |"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find(" GB/s |"), std::string::npos) << table.out;
}

TEST_F(MoertCliTest, ProfileSumsEveryCall) {
  std::string trace = folder_.file("trace.json");
  Result result = moert("profile " + plan_ +
                        " -p 10 -n 3 -t 2 --no-limits --json --trace " + trace);
  ASSERT_EQ(result.exitCode, 0) << result.err;
  auto object = nlohmann::json::parse(result.out);
  std::map<std::pair<std::string, std::string>, nlohmann::json> rows;
  for (const auto &row : object["by_op"])
    rows[{row["phase"], row["name"]}] = row;
  // A prompt of 10 in steps of 5, three more tokens, and logits after each of
  // these four.
  using S = SamplePlan;
  double experts = 1 - std::pow(1 - double(S::kTopK) / S::kExperts, 5);
  double table = 4.0 * S::kHidden * S::kExpertWidth * S::kExperts;
  const auto &down = rows.at({"prefill", "experts_linear"});
  EXPECT_EQ(down["calls"], 2);
  EXPECT_NEAR(down["weight_bytes"].get<double>(), 2 * experts * table, 1e-6);
  EXPECT_NEAR(down["ops"].get<double>(),
              2.0 * 10 * S::kTopK * S::kHidden * S::kExpertWidth, 1e-6);
  EXPECT_EQ(rows.at({"decode", "absorb_query"})["calls"], 3);
  // Tokens 11 to 13 attend to 11 to 13 latent rows.
  EXPECT_NEAR(rows.at({"decode", "latent_attention"})["ops"].get<double>(),
              2.0 * (11 + 12 + 13) * S::kHeads * (2 * S::kLatent + S::kRope),
              1e-6);
  EXPECT_EQ(rows.at({"logits", "linear"})["calls"], 4);
  EXPECT_TRUE(down["limit_fraction"].is_null());
  EXPECT_EQ(object["weights"]["mapped"], true);
  EXPECT_GT(object["weights"]["touched_bytes"], 0);
  ASSERT_EQ(object["phases"].size(), 3u);
  EXPECT_EQ(object["phases"][0]["phase"], "decode");
  EXPECT_EQ(object["phases"][0]["steps"], 3);
  double run = 0;
  for (const auto &[key, row] : rows)
    run += key.first == "decode" ? row["seconds"].get<double>() : 0;
  double stepSeconds = object["phases"][0]["seconds"];
  EXPECT_NEAR(object["phases"][0]["overhead_fraction"].get<double>(),
              1 - run / stepSeconds, 1e-9);
  double typical = object["phases"][0]["median_overhead_fraction"];
  EXPECT_GT(typical, 0);
  EXPECT_LT(typical, 1);
  double total = 0;
  size_t calls = 0;
  for (const auto &[key, row] : rows) {
    total += row["seconds"].get<double>() + row["wait_seconds"].get<double>();
    calls += row["calls"].get<size_t>();
  }
  EXPECT_GT(total, 0);
  EXPECT_LE(total, object["seconds"].get<double>());

  size_t traced = 0;
  double end = 0;
  auto events = nlohmann::json::parse(contentOf(trace));
  for (const auto &event : events.at("traceEvents")) {
    if (event["ph"] == "M") {
      EXPECT_EQ(event["args"]["name"], "cpu0");
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    // Times are printed with digits up to 1 ns.
    EXPECT_GE(event["ts"].get<double>(), end - 0.002);
    end = event["ts"].get<double>() + event["dur"].get<double>();
    traced += event["name"] != "wait";
  }
  EXPECT_EQ(traced, calls);

  Result text = moert("profile " + plan_ + " -p 5 -n 1 -t 1");
  EXPECT_EQ(text.exitCode, 0) << text.err;
  for (const char *cell :
       {"at barriers", "decode overhead", "experts_gate_up", "of limit", " %"})
    EXPECT_NE(text.out.find(cell), std::string::npos) << text.out;
}

// Attention sees the tokens that filled the cache before, but they are not
// counted.
TEST_F(MoertCliTest, ProfileBeginsAtADepth) {
  Result result =
      moert("profile " + plan_ + " -p 5 -n 1 -d 7 -t 1 --no-limits --json");
  ASSERT_EQ(result.exitCode, 0) << result.err;
  auto object = nlohmann::json::parse(result.out);
  for (const auto &phase : object["phases"])
    EXPECT_EQ(phase["steps"], phase["phase"] == "logits" ? 2 : 1);
  using S = SamplePlan;
  for (const auto &row : object["by_op"])
    if (row["name"] == "latent_attention") {
      EXPECT_NEAR(row["ops"].get<double>(),
                  2.0 * 13 * S::kHeads * (2 * S::kLatent + S::kRope), 1e-6);
      return;
    }
  FAIL() << result.out;
}

TEST_F(MoertCliTest, ProfileSumsPartsByWhatThePlanSaysOfOps) {
  SamplePlan sample;
  auto &plan = sample.builder.plan;
  auto rows = [&](const char *list) {
    Result result = moert("profile " + sample.builder.write(folder_) +
                          " -p 0 -n 1 -t 1 --no-limits --json");
    EXPECT_EQ(result.exitCode, 0) << result.err;
    auto object = nlohmann::json::parse(result.out);
    std::map<std::string, int> calls;
    for (const auto &row : object[list])
      calls[row["name"]] += row["calls"].get<int>();
    return calls;
  };
  // Without an explanation, names are those of instructions.
  plan.explanation.clear();
  EXPECT_EQ(rows("by_part").at("embed"), 1);

  // An op outside of layers may have the name of a layer's op.
  plan.layers = 2;
  for (auto [part, layer] :
       {std::pair("mix", 0), {"mix", 1}, {"blk.0.mix", -1}}) {
    auto &op = plan.explanation.emplace_back(new moert::fb::ExplainT());
    op->part = part;
    op->layer = layer;
  }
  int total = 0;
  for (auto &phase : plan.phases)
    for (auto &instruction : phase->instructions)
      instruction->explain =
          phase->name == "prefill" ? 0 : uint32_t(total++ % 3);
  std::map<std::string, int> parts = rows("by_part"), labels = rows("by_label");
  EXPECT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts["mix"], (total + 2) / 3 + (total + 1) / 3);
  EXPECT_EQ(parts["blk.0.mix"], total / 3);
  EXPECT_EQ(labels["blk.1.mix"], (total + 1) / 3);
}

TEST_F(MoertCliTest, MistakesSuggestTheFix) {
  std::filesystem::create_directory(folder_.file("empty"));
  struct {
    std::string arguments;
    int exitCode;
    const char *message;
  } cases[] = {
      {"", 2, "Commands:"},
      {"perplexty " + plan_, 2, "did you mean perplexity?"},
      {"run " + plan_ + " --treads 2 -p x", 2, "did you mean --threads?"},
      {"run", 2, "MODEL.gguf is required"},
      {"run " + plan_, 2, "either -p TEXT or -f FILE"},
      {"run " + plan_ + " -p x -f y", 2, "either -p TEXT or -f FILE"},
      {"run " + plan_ + " -f /nowhere/text", 4, "/nowhere/text: cannot open"},
      {"run " + plan_ + " -p x --threads 100000", 0, "this process may use"},
      {"run " + plan_ + " -p x --temp -2", 2, "temp"},
      {"run " + folder_.file("missing.fb") + " -p x", 4, "cannot open"},
      {"run " + folder_.file("empty") + " -p x", 2,
       "empty: the folder has no GGUF file"},
      {"run - -p x", 2, "standard input"},
      {"info " + folder_.write("m.gguf", "GGUF1234"), 2,
       "moec compile"},
      {"run " + folder_.write("junk", "0123456789") + " -p x", 3,
       "is not a plan"},
      {"bench " + plan_ + " -o yaml", 2, "yaml"},
      {"bench " + plan_ + " -pg 4", 2, "as in -pg 512,128; found \"4\""},
      {"bench " + plan_ + " -pg 4,0", 2, "as in -pg 512,128"},
      {"profile " + plan_ + " -p 0 -n 0", 2, "-p and -n are both 0"},
  };
  for (const auto &[arguments, exitCode, message] : cases) {
    Result result = moert(arguments);
    EXPECT_EQ(result.exitCode, exitCode) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << arguments << "\n"
                                                           << result.err;
  }
}

class LongRunTest : public MoertCliTest {
protected:
  /// Starts a run that would take minutes, calls `disturb` with its process id
  /// when text appears, and waits for its end. Keeps reading its output until
  /// then, or closes the pipe if `readOn` is false.
  Result disturbed(const std::function<void(pid_t)> &disturb,
                   bool readOn = true) {
    auto &plan = sample_.builder.plan;
    plan.context = 1 << 20;
    plan.kv[0]->capacity = plan.context;
    plan.devices[0]->kv_bytes =
        uint64_t(plan.context) * uint64_t(plan.kv[0]->width) * 4;
    plan_ = sample_.builder.write(folder_);
    std::string err = folder_.file("err");
    int out[2];
    if (::pipe(out) != 0)
      return {-1, "", "no pipe"};
    pid_t child = ::fork();
    if (child == 0) {
      ::close(out[0]);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      ::execl(MOERT_PATH, "moert", "run", plan_.c_str(), "-p", "the",
              "--ignore-eos", nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    char byte;
    EXPECT_EQ(::read(out[0], &byte, 1), 1);
    disturb(child);
    while (readOn && ::read(out[0], &byte, 1) == 1)
      ;
    ::close(out[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), "",
            contentOf(err)};
  }
};

TEST_F(LongRunTest, CtrlCPrintsStatisticsAndExits130) {
  Result result = disturbed([](pid_t child) { ::kill(child, SIGINT); });
  EXPECT_EQ(result.exitCode, 130) << result.err;
  EXPECT_NE(result.err.find("prompt:"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("generated:"), std::string::npos) << result.err;
}

TEST_F(LongRunTest, AReaderThatGoesAwayEndsIt) {
  Result result = disturbed([](pid_t) {}, /*readOn=*/false);
  EXPECT_EQ(result.exitCode, 141) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(LongRunTest, TruncatedWeightsAreAnErrorNotASignal) {
  Result result = disturbed([&](pid_t) {
    EXPECT_EQ(::truncate(folder_.file("plan.weights").c_str(), 0), 0);
  });
  EXPECT_EQ(result.exitCode, 4) << result.err;
  EXPECT_NE(result.err.find("became shorter while it was in use"),
            std::string::npos)
      << result.err;
}

} // namespace
