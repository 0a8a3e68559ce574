// Options of moert: contradictions and values out of range are refused with
// exit code 2 and their place; JSON output is exactly one document.
#include "test/unit/MoertCliTest.h"

#include <nlohmann/json.hpp>

using moetest::MoertCliTest;
using Json = nlohmann::json;

namespace {

TEST_F(MoertCliTest, NumbersAreRefusedWithTheirPlace) {
  std::string logits =
      "logits " + plan_ + " --out " + folder_.file("x.npy") + " --tokens=";
  std::string run = "run " + plan_ + " -p a ";
  std::string bench = "bench " + plan_ + " ";
  struct {
    std::string arguments;
    const char *message;
  } cases[] = {
      {logits + "3,,4", "--tokens: number 2 of \"3,,4\": expected a whole "
                        "number from 0 to 2147483647, found \"\""},
      {logits + "3,", "--tokens: number 2 of \"3,\": expected"},
      {logits + ",3", "--tokens: number 1 of \",3\": expected"},
      {logits + "3,x", "number 2 of \"3,x\": expected a whole number from 0 to "
                       "2147483647, found \"x\""},
      {logits + "3,4x", "found \"4x\""},
      {logits + "3,-4", "found \"-4\""},
      {logits + "'3, 4'", "found \" 4\""},
      {logits + "3,99999999999999999999", "found \"99999999999999999999\""},
      {logits + "2147483648", "found \"2147483648\""},
      {logits, "--tokens"},
      {bench + "-p 5,,6", "--n-prompt: number 2 of \"5,,6\""},
      {bench + "-n 5,x", "--n-gen: number 2 of \"5,x\""},
      {bench + "-d ,1", "--n-depth: number 1 of \",1\""},
      {bench + "-p -1", "--n-prompt: number 1 of \"-1\""},
      {bench + "-t 1,", "--threads: number 2 of \"1,\""},
      {bench + "-r 0", "--repetitions: expected a whole number from 1"},
      {bench + "-pg 4,,5", "as in -pg 512,128; found \"4,,5\""},
      {run + "-t -2", "--threads: expected a whole number from 0"},
      {run + "-t 1.5", "--threads: expected a whole number from 0"},
      {run + "-t 010x", "--threads: expected a whole number from 0"},
      {run + "-n -3", "--n-predict: expected a whole number from -1"},
      {run + "-n x", "--n-predict: expected a whole number from -1"},
      {run + "--temp nan", "--temp: expected a number from 0 to"},
      {run + "--temp inf", "--temp: expected a number from 0 to"},
      {run + "--temp -0.1", "--temp: expected a number from 0 to"},
      {run + "--top-k -2", "--top-k: expected a whole number from 0 to"},
      {run + "--top-p 1.5", "--top-p: expected a number from 0 to 1"},
      {run + "--top-p 0", "top-p"},
      {run + "--min-p nan", "--min-p: expected a number from 0 to 1"},
      {run + "--repeat-penalty 0", "repetition penalty"},
      {run + "--repeat-last-n -2", "--repeat-last-n: expected a whole number"},
      {run + "--seed -2", "--seed: expected a whole number from 0 to"},
      {run + "--seed 18446744073709551616", "--seed: expected a whole number"},
      {"profile " + plan_ + " -p -1", "--n-prompt: expected a whole number"},
      {"profile " + plan_ + " -n 2147483647", "--n-gen: expected a whole"},
      {"perplexity " + plan_ + " --file x --ctx -4", "--ctx: expected a whole"},
      {"perplexity " + plan_ + " --file " + plan_ + " --ctx 3",
       "--ctx must be at least 4"},
  };
  for (const auto &[arguments, message] : cases) {
    Result result = moert(arguments);
    EXPECT_EQ(result.exitCode, 2) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << arguments << "\n"
                                                           << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST_F(MoertCliTest, NumbersAreDecimal) {
  Result ten = moert("run " + plan_ + " -p a -n 010 --ignore-eos --json");
  ASSERT_EQ(ten.exitCode, 0) << ten.err;
  EXPECT_EQ(Json::parse(ten.out)["generated_tokens"], 10);
  EXPECT_EQ(moert("run " + plan_ + " -p a -n 0x10").exitCode, 2);
}

TEST_F(MoertCliTest, ContradictionsAreRefused) {
  std::string run = "run " + plan_, a = run + " -p a ";
  struct {
    std::string arguments;
    const char *message;
  } cases[] = {
      {run, "either -p TEXT or -f FILE"},
      {a + "-f x", "either -p TEXT or -f FILE"},
      {a + "--no-mmap --allow-paging", "--allow-paging"},
      {a + "--stop ''", "stop"},
      {"tokenize " + plan_, "either --text T or --file F"},
      {"tokenize " + plan_ + " --text x --file y", "either --text T or"},
      {"bench " + plan_ + " -p 0 -n 0", "nothing to measure"},
      {"profile " + plan_ + " -p 0 -n 0", "nothing to measure"},
      {"bench " + plan_ + " -o csv --json", "--output was given 2 times"},
      // Two documents for one stream.
      {"logits " + plan_ + " --tokens 3 --json --out -",
       "--json and the logits"},
      {"profile " + plan_ + " --json --trace -", "--json and the trace"},
      // Options with one value: a second value would hide the first.
      {a + "-p b", "--prompt was given 2 times, but takes one value"},
      {a + "-n 3 -n 4", "--n-predict was given 2 times"},
      {a + "--temp 0 --temp 1 --temp 2", "--temp was given 3 times"},
      {a + "-t 1 -t 1", "--threads was given 2 times"},
      {"perplexity " + plan_ + " --file x --file y", "--file was given 2"},
      {"logits " + plan_ + " --tokens 3 --out x --out y", "--out was given 2"},
  };
  for (const auto &[arguments, message] : cases) {
    Result result = moert(arguments);
    EXPECT_EQ(result.exitCode, 2) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << arguments << "\n"
                                                           << result.err;
  }
}

// These combinations are allowed: they have no effect, or repeat something, and
// do no harm.
TEST_F(MoertCliTest, HarmlessCombinationsWork) {
  std::string run = "run " + plan_ + " -p a -n 2 --temp 0 ";
  std::string greedy = moert(run).out;
  for (const char *more :
       {"--top-k 5", "--top-p 0.5", "--seed 9", "--repeat-last-n 0", "--stats",
        "--stats --stats", "--ignore-eos --pin"})
    EXPECT_EQ(moert(run + more).out, greedy) << more;
  Result none = moert("run " + plan_ + " -p a -n 0 --json");
  EXPECT_EQ(none.exitCode, 0) << none.err;
  EXPECT_EQ(Json::parse(none.out)["generated_tokens"], 0);
  // Lists are joined.
  Result list = moert("logits " + plan_ +
                      " --tokens 3 --tokens 4,5 --json"
                      " --out " +
                      folder_.file("x.npy"));
  EXPECT_EQ(Json::parse(list.out)["tokens"], 3) << list.err;
}

TEST_F(MoertCliTest, JsonIsOneDocumentOnStandardOutput) {
  std::string text = folder_.write("text", "the cat sat on the mat");
  std::string npy = folder_.file("x.npy");
  const std::string commands[] = {
      "run " + plan_ + " -p a -n 2",
      "bench " + plan_ + " -p 4 -n 2 -r 1 -t 1",
      "profile " + plan_ + " -p 4 -n 2 -t 1",
      "perplexity " + plan_ + " --ctx 8 --file " + text,
      "logits " + plan_ + " --tokens 3 --out " + npy,
      "tokenize " + plan_ + " --text 'the a'",
      "info " + plan_,
      "verify " + plan_,
  };
  for (const std::string &command : commands) {
    Result result = moert(command + " --json");
    EXPECT_EQ(result.exitCode, 0) << command << result.err;
    EXPECT_TRUE(Json::accept(result.out)) << command << "\n" << result.out;
    EXPECT_EQ(result.err, "") << command;
  }
  // Errors stay on stderr, as text.
  for (const char *command :
       {"run nowhere.fb -p a", "bench nowhere.fb", "profile nowhere.fb",
        "perplexity nowhere.fb --file nowhere", "info nowhere.fb",
        "verify nowhere.fb", "logits nowhere.fb --tokens 3 --out x",
        "tokenize nowhere.fb --text a"}) {
    Result result = moert(command + std::string(" --json"));
    EXPECT_EQ(result.exitCode, 4) << command;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_EQ(result.err.find("error: "), 0u) << command << result.err;
  }
}

} // namespace
