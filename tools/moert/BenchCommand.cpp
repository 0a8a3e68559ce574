// moert bench: tokens per second, with llama-bench's tests and columns.
#include "kernels/Abi.h"
#include "runtime/PlanAccess.h"
#include "runtime/base/HostCpu.h"
#include "runtime/text/Sampler.h"
#include "tools/moert/BenchReport.h"
#include "tools/moert/Commands.h"
#include "tools/moert/PlanFacts.h"
#include "tools/moert/Shared.h"

#include <chrono>
#include <ctime>
#include <memory>

namespace moert {

namespace {
struct BenchFlags {
  SessionFlags session;
  std::vector<int32_t> prompts = {512}, gens = {128}, depths = {0};
  std::vector<int32_t> threads = {0};
  int32_t repetitions = 5;
  std::string output = "md";
  bool noWarmup = false;
};

std::string utcNow() {
  std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char buffer[32];
  size_t length =
      std::strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(buffer, length);
}

std::string kvTypeName(const Plan &plan) {
  constexpr std::string_view names[] = {"f32", "f16", "bf16"};
  if (count(plan.table().kv()) == 0)
    return "";
  return std::string(names[plan.table().kv()->Get(0)->type()]);
}

BenchSubject describe(const Session &session) {
  const Plan &plan = session.plan();
  return {"moert " MOE_VERSION,
          cpuModelName(),
          plan.path(),
          std::string(text(plan.table().target())),
          modelType(plan),
          weightBytes(plan),
          uint64_t(plan.table().parameters()),
          session.ubatch(),
          kvTypeName(plan)};
}

/// Random token ids, the same in every run: real text would favour some
/// experts, and there may be no tokenizer.
std::vector<int32_t> randomTokens(const Session &session, int32_t count) {
  SplitMix64 random(42);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random.next() % uint64_t(session.vocab()));
  return tokens;
}

/// One repetition, from an empty cache; returns nanoseconds.
StatusOr<uint64_t> measure(Session &session, const BenchResult &test) {
  MOE_RETURN_IF_ERROR(session.rewind(0));
  if (test.depth > 0)
    MOE_RETURN_IF_ERROR(
        session.prefill(randomTokens(session, test.depth)).status());
  std::vector<int32_t> tokens = randomTokens(session, test.prompt + test.gen);
  auto start = std::chrono::steady_clock::now();
  if (test.prompt > 0)
    MOE_RETURN_IF_ERROR(session.prefill(tokens).status());
  else
    for (int32_t token : tokens)
      MOE_RETURN_IF_ERROR(session.decode(token).status());
  auto end = std::chrono::steady_clock::now();
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - start)
          .count());
}

Status runTest(Session &session, const BenchFlags &flags, BenchResult &test,
               ProgressLine &progress) {
  if (!flags.noWarmup) {
    progress.show(test.name() + ": warm-up");
    BenchResult warmup = test;
    warmup.gen = std::min(test.gen, 1);
    MOE_RETURN_IF_ERROR(measure(session, warmup).status());
  }
  test.threads = session.threads();
  test.started = utcNow();
  for (int32_t i = 0; i < flags.repetitions; ++i) {
    progress.show(
        fmt::format("{}: run {}/{}", test.name(), i + 1, flags.repetitions));
    MOE_ASSIGN_OR_RETURN(uint64_t nanoseconds, measure(session, test));
    test.nanoseconds.push_back(nanoseconds);
  }
  return Status::ok();
}

std::vector<BenchResult> tests(const BenchFlags &flags) {
  std::vector<BenchResult> tests;
  for (int32_t depth : flags.depths) {
    for (int32_t prompt : flags.prompts)
      if (prompt > 0)
        tests.push_back({prompt, 0, depth, 0, "", {}});
    for (int32_t gen : flags.gens)
      if (gen > 0)
        tests.push_back({0, gen, depth, 0, "", {}});
  }
  return tests;
}

Status checkFlags(const BenchFlags &flags) {
  if (flags.repetitions < 1)
    return Status(StatusCode::Usage, "-r must be at least 1");
  for (const auto *list : {&flags.prompts, &flags.gens, &flags.depths})
    for (int32_t number : *list)
      if (number < 0)
        return Status(StatusCode::Usage,
                      "-p, -n and -d take numbers that are not negative");
  if (tests(flags).empty())
    return Status(StatusCode::Usage,
                  "nothing to measure: -p and -n are both 0");
  return Status::ok();
}

Status bench(const BenchFlags &flags) {
  MOE_RETURN_IF_ERROR(checkFlags(flags));
  const std::atomic<bool> *cancel = catchInterrupt();
  BenchSubject subject;
  std::vector<BenchResult> results;
  ProgressLine progress;
  for (int32_t threads : flags.threads) {
    SessionOptions options = flags.session.options;
    options.threads = threads;
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         Session::open(flags.session.plan, options));
    session->setCancel(cancel);
    subject = describe(*session);
    for (BenchResult test : tests(flags)) {
      MOE_RETURN_IF_ERROR(runTest(*session, flags, test, progress));
      results.push_back(std::move(test));
    }
  }
  progress.clear();
  fmt::print("{}", flags.output == "json"  ? benchJson(subject, results)
                   : flags.output == "csv" ? benchCsv(subject, results)
                                           : benchMarkdown(subject, results));
  return Status::ok();
}
} // namespace

void addBenchCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command =
      tool.command("bench", "Measure tokens per second as llama-bench does",
                   [flags] { return bench(*flags); });
  flags->session.addPlan(*command);
  auto addList = [&](const char *name, std::vector<int32_t> &list,
                     const char *help, const char *group) {
    command->add_option(name, list, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("N,...")
        ->group(group);
  };
  addList("-p,--n-prompt", flags->prompts, "Prompt lengths; 0 is none",
          "Tests");
  addList("-n,--n-gen", flags->gens, "Generated tokens; 0 is none", "Tests");
  addList("-d,--n-depth", flags->depths, "Tokens in the cache before", "Tests");
  command->add_option("-r,--repetitions", flags->repetitions, "Runs per test")
      ->type_name("N")
      ->group("Tests");
  command
      ->add_flag("--no-warmup", flags->noWarmup,
                 "Leave out the run before each test that is not counted")
      ->group("Tests");
  addList("-t,--threads", flags->threads,
          "Worker threads; 0 is one per physical core", "Machine");
  command
      ->add_flag("--pin", flags->session.options.pin,
                 "Pin each worker thread to one core")
      ->group("Machine");
  flags->session.addModel(*command);
  command->add_option("-o,--output", flags->output, "Format: md, json or csv")
      ->check(CLI::IsMember({"md", "json", "csv"}))
      ->type_name("FORMAT")
      ->group("Output");
}

} // namespace moert
