// moert bench: tokens per second, with llama-bench's tests and columns.
#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/device/cpu/Calibrate.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/plan/StepWork.h"
#include "tools/common/Interrupt.h"
#include "tools/moert/BatchedBench.h"
#include "tools/moert/BenchReport.h"
#include "tools/moert/Commands.h"
#include "tools/moert/ExpertShares.h"
#include "tools/moert/ModelPlan.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <set>

namespace moert {

namespace {
struct BenchFlags {
  EngineFlags engine;
  std::vector<int32_t> prompts = {512}, gens = {128}, depths = {0};
  std::vector<int32_t> threads = {0}, parallel = {};
  int32_t repetitions = 5;
  std::vector<std::string> pairTexts;
  /// Numbers of each pair in pairTexts.
  std::vector<std::pair<int32_t, int32_t>> pairs;
  std::string output = "md";
  bool noWarmup = false, noLimits = false;
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

/// Layers whose attention, and so their cache, is on a GPU.
int32_t layersOnGpus(const fb::Plan &plan) {
  std::set<int32_t> layers;
  for (uint32_t i = 0; i < count(plan.explanation()); ++i)
    if (const fb::Explain &op = *plan.explanation()->Get(i);
        op.layer() >= 0 && op.kv_bytes() > 0 &&
        text(op.device()).starts_with("gpu"))
      layers.insert(op.layer());
  return int32_t(layers.size());
}

BenchSubject describe(const Engine &engine) {
  const Plan &plan = engine.plan();
  BenchSubject subject{.version = "moert " MOE_VERSION,
                       .cpu = cpuModelName(),
                       .planPath = plan.path(),
                       .target = std::string(text(plan.table().target())),
                       .modelType = modelType(plan),
                       .modelBytes = weightBytes(plan),
                       .parameters = uint64_t(plan.table().parameters()),
                       .ubatch = engine.ubatch(),
                       .kvType = kvTypeNames(plan.table())};
  bool isOnCpu = false;
  for (uint32_t i = 0; i < count(plan.table().devices()); ++i) {
    const fb::Device &device = *plan.table().devices()->Get(i);
    if (device.kind() != fb::DeviceKind::Cuda) {
      isOnCpu = true;
      continue;
    }
    subject.gpus +=
        (subject.gpus.empty() ? "" : ", ") + escaped(engine.hardwareOf(i));
    subject.backends = "CUDA";
  }
  if (isOnCpu && !subject.gpus.empty())
    subject.backends += ",CPU";
  subject.gpuLayers = layersOnGpus(plan.table());
  return subject;
}

/// Runs a repetition from an empty cache and returns nanoseconds.
StatusOr<uint64_t> measure(Engine &engine, Sequence &sequence,
                           const BenchResult &test) {
  MOE_RETURN_IF_ERROR(sequence.rewind(0));
  if (test.depth > 0)
    MOE_RETURN_IF_ERROR(
        engine.append(sequence, randomTokens(engine, test.depth)).status());
  std::vector<int32_t> tokens = randomTokens(engine, test.prompt + test.gen);
  auto start = std::chrono::steady_clock::now();
  std::span<const int32_t> all(tokens);
  if (test.prompt > 0)
    MOE_RETURN_IF_ERROR(
        engine.append(sequence, all.first(size_t(test.prompt))).status());
  for (int32_t token : all.subspan(size_t(test.prompt)))
    MOE_RETURN_IF_ERROR(engine.append(sequence, token).status());
  auto end = std::chrono::steady_clock::now();
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - start)
          .count());
}

/// Records the bytes or operations per token of the test.
void addWork(const Engine &engine, BenchResult &test) {
  const Plan &plan = engine.plan();
  StepWork head = phaseWork(plan, PhaseKind::Logits, StepSize::after(0, 1));
  if (test.prompt == 0) {
    // The weights that a token reads do not depend on the cache.
    StepWork step = sequenceWork(plan, StepSize::after(0, 1));
    test.bytesPerToken =
        step.bytes + (decodeHasHead(plan.table()) ? 0 : head.bytes);
  } else if (test.gen == 0) {
    // The steps are those that Engine::append() makes.
    double ops = head.ops;
    for (int32_t done = 0; done < test.prompt; done += engine.ubatch()) {
      StepSize step = StepSize::after(
          test.depth + done, std::min(engine.ubatch(), test.prompt - done));
      ops += sequenceWork(plan, step).ops;
    }
    test.opsPerToken = ops / test.prompt;
  }
}

/// Adds a sample of the limit of the test.
void addLimit(Calibrator *calibrator, BenchResult &test) {
  if (!calibrator)
    return;
  if (test.bytesPerToken > 0)
    test.limits.push_back(calibrator->readBytesPerSecond());
  else if (test.opsPerToken > 0)
    test.limits.push_back(calibrator->opsPerSecond(moek::Peak::Int8));
}

/// `calibrator` is null if limits are not wanted.
Status runTest(Engine &engine, Sequence &sequence, const BenchFlags &flags,
               Calibrator *calibrator, BenchResult &test,
               ProgressLine &progress) {
  if (!flags.noWarmup) {
    progress.show(test.name() + ": warm-up");
    BenchResult warmup = test;
    warmup.gen = std::min(test.gen, 1);
    MOE_RETURN_IF_ERROR(measure(engine, sequence, warmup).status());
  }
  addWork(engine, test);
  test.started = utcNow();
  addLimit(calibrator, test);
  for (int32_t i = 0; i < flags.repetitions; ++i) {
    progress.show(
        fmt::format("{}: run {}/{}", test.name(), i + 1, flags.repetitions));
    MOE_ASSIGN_OR_RETURN(uint64_t nanoseconds, measure(engine, sequence, test));
    test.nanoseconds.push_back(nanoseconds);
    addLimit(calibrator, test);
  }
  test.threads = engine.team();
  return Status::ok();
}

std::vector<BenchResult> tests(const BenchFlags &flags) {
  std::vector<BenchResult> tests;
  for (int32_t depth : flags.depths) {
    for (int32_t prompt : flags.prompts)
      if (prompt > 0)
        tests.push_back({.prompt = prompt, .depth = depth});
    for (int32_t gen : flags.gens)
      if (gen > 0)
        tests.push_back({.gen = gen, .depth = depth});
    for (auto [prompt, gen] : flags.pairs)
      tests.push_back({.prompt = prompt, .gen = gen, .depth = depth});
  }
  return tests;
}

/// Parses text such as "512,128" as two numbers above 0.
StatusOr<std::pair<int32_t, int32_t>> parsePair(const std::string &text) {
  auto numbers = parseNumbers(text, 1, kMostTokens);
  if (numbers && numbers->size() == 2)
    return std::pair((*numbers)[0], (*numbers)[1]);
  return Status(StatusCode::Usage, "-pg takes the numbers of prompt tokens and "
                                   "of generated tokens, as in -pg 512,128; "
                                   "found " +
                                       moert::quoted(text));
}

Status checkFlags(const BenchFlags &flags) {
  if (!flags.parallel.empty()) {
    bool one = flags.prompts.size() == 1 && flags.gens.size() == 1 &&
               flags.pairTexts.empty() && flags.depths == std::vector{0};
    if (!one || flags.gens.front() == 0 || flags.prompts.front() == 0)
      return Status(StatusCode::Usage,
                    "--parallel takes one prompt length (-p) and one number of "
                    "generated tokens (-n) above 0, and neither -d nor -pg");
    return Status::ok();
  }
  if (tests(flags).empty())
    return Status(StatusCode::Usage,
                  "nothing to measure: -p and -n are both 0, and there is no "
                  "-pg");
  return Status::ok();
}

/// If experts of a layer are on several devices, counts for each device how
/// often the tokens of a test choose its experts. The engine for this runs one
/// instruction at a time.
Status watchExperts(const BenchFlags &flags, EngineOptions options,
                    const std::atomic<bool> *cancel, BenchSubject &subject) {
  constexpr int32_t kTokens = 64;
  std::optional<ExpertShares> shares;
  options.makeDevices = [&](const Plan &plan, const WeightFiles &files,
                            DeviceOptions ofDevices) -> StatusOr<DeviceList> {
    shares.emplace(plan);
    MOE_ASSIGN_OR_RETURN(DeviceList devices,
                         makeDevices(plan, files, std::move(ofDevices)));
    return watchRouters(
        plan, std::move(devices),
        [&](const RouterChoice &choice) { shares->add(choice); });
  };
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       flags.engine.open(options));
  Sequence sequence = engine->sequence({.sharePrefixes = false});
  sequence.setCancel(cancel);
  subject.watchedTokens = std::min(kTokens, engine->context());
  MOE_RETURN_IF_ERROR(
      engine->append(sequence, randomTokens(*engine, subject.watchedTokens))
          .status());
  subject.expertShares = shares->shares();
  return Status::ok();
}

/// Asks for a plan that holds the longest test, of a model that is compiled.
void wishPlan(BenchFlags &flags) {
  int64_t &context = flags.engine.options.rung.context;
  if (context == 0)
    for (const BenchResult &test : tests(flags))
      context = std::max(context, int64_t(test.depth) + test.prompt + test.gen);
  if (!flags.parallel.empty()) {
    context = std::max<int64_t>(context, int64_t(flags.prompts.front()) +
                                             flags.gens.front());
    flags.engine.sequences = *std::ranges::max_element(flags.parallel);
  }
}

Status bench(BenchFlags &flags) {
  for (const std::string &text : flags.pairTexts) {
    MOE_ASSIGN_OR_RETURN(auto pair, parsePair(text));
    flags.pairs.push_back(pair);
  }
  MOE_RETURN_IF_ERROR(checkFlags(flags));
  if (isModel(flags.engine.plan))
    wishPlan(flags);
  const std::atomic<bool> *cancel = moetool::catchInterrupt();
  BenchSubject subject;
  std::vector<BenchResult> results;
  std::vector<BatchedResult> batched;
  ProgressLine progress;
  bool hasSplits = false;
  for (int32_t &threads : flags.threads)
    threads = usableThreads(threads);
  for (int32_t threads : flags.threads) {
    EngineOptions options = flags.engine.options;
    options.threads = threads;
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                         flags.engine.open(options));
    hasSplits = ExpertShares(engine->plan()).hasSplits();
    // A shared prefix would leave nothing to compute.
    Sequence sequence = engine->sequence({.sharePrefixes = false});
    sequence.setCancel(cancel);
    subject = describe(*engine);
    subject.mapped = !options.copyWeights;
    std::optional<Calibrator> calibrator;
    if (!flags.noLimits) {
      CalibrationOptions brief;
      brief.seconds = 0.1; // The measurement is made once for each repetition.
      MOE_ASSIGN_OR_RETURN(calibrator,
                           Calibrator::create(engine->team(), brief));
    }
    if (!flags.parallel.empty()) {
      BatchedTest test{flags.prompts.front(), flags.gens.front(),
                       flags.repetitions, flags.noWarmup};
      // More sequences than the plan's batch take turns, but a plan that
      // decodes one at a time cannot be measured with several.
      if (engine->batch() < 2)
        MOE_RETURN_IF_ERROR(checkSequences(
            *engine, "--parallel", *std::ranges::max_element(flags.parallel)));
      for (int32_t sequences : flags.parallel) {
        MOE_ASSIGN_OR_RETURN(BatchedResult result,
                             runBatched(*engine, test, sequences,
                                        calibrator ? &*calibrator : nullptr,
                                        cancel, progress));
        batched.push_back(std::move(result));
      }
      continue;
    }
    for (BenchResult test : tests(flags)) {
      MOE_RETURN_IF_ERROR(runTest(*engine, sequence, flags,
                                  calibrator ? &*calibrator : nullptr, test,
                                  progress));
      results.push_back(std::move(test));
    }
    MappedFile::PageUse pages = engine->weightPages();
    if (pages.resident > 0)
      subject.hugePages = double(pages.huge) / double(pages.resident);
  }
  if (hasSplits && flags.parallel.empty()) {
    progress.show("watching which experts are chosen");
    MOE_RETURN_IF_ERROR(
        watchExperts(flags, flags.engine.options, cancel, subject));
  }
  progress.clear();
  auto print = flags.output.starts_with("json") ? moetool::printJson
                                                : moetool::printText;
  if (!flags.parallel.empty()) {
    print(batchedReport(subject, batched, flags.output));
    return Status::ok();
  }
  print(flags.output == "md" ? benchMarkdown(subject, results)
                             : benchRecords(subject, results, flags.output));
  return Status::ok();
}
} // namespace

void addBenchCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command = addEngineCommand(
      tool, "bench", "Measure tokens per second as llama-bench does", flags,
      bench);
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::benchPrompts, flags->prompts);
  moetool::addOption(*command, rows::benchGens, flags->gens);
  moetool::addOption(*command, rows::benchDepths, flags->depths);
  moetool::addOption(*command, rows::benchPairs, flags->pairTexts);
  moetool::addOption(*command, rows::benchParallel, flags->parallel);
  moetool::addOption(*command, rows::repetitions, flags->repetitions);
  moetool::addOption(*command, rows::noWarmup, flags->noWarmup);
  moetool::addOption(*command, rows::noLimits, flags->noLimits);
  moetool::addOption(*command, rows::threadCounts, flags->threads);
  flags->engine.addPin(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  moetool::addOption(*command, rows::benchFormat, flags->output);
  flags->engine.addCompile(*command);
}

} // namespace moert
