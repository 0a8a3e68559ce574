#include "tools/moert/BatchedBench.h"

#include "kernels/KvCache.h"
#include "runtime/base/Text.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"
#include "runtime/plan/StepWork.h"
#include "runtime/text/Sampler.h"
#include "tools/moert/Median.h"

#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moert {

namespace {
/// Appends random tokens to all sequences and measures the time.
class Batch {
public:
  Batch(Engine &engine, int32_t sequences, const std::atomic<bool> *cancel)
      : engine_(engine) {
    for (int32_t i = 0; i < sequences; ++i) {
      // Shared prefixes would leave nothing to compute.
      sequences_.push_back(engine.sequence({.sharePrefixes = false}));
      sequences_.back().setCancel(cancel);
    }
  }

  StatusOr<double> append(int32_t count) {
    std::vector<std::vector<int32_t>> tokens(sequences_.size());
    std::vector<Request> requests;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      for (int32_t t = 0; t < count; ++t)
        tokens[i].push_back(
            int32_t(random_.next() % uint64_t(engine_.vocab())));
      requests.push_back({&sequences_[i], tokens[i]});
    }
    auto start = std::chrono::steady_clock::now();
    auto ignore = [](size_t, int32_t, std::span<const float>) {
      return Status::ok();
    };
    while (std::ranges::any_of(requests, &Request::isOpen))
      MOE_RETURN_IF_ERROR(engine_.step(requests, ignore));
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    for (const Request &request : requests)
      MOE_RETURN_IF_ERROR(request.status);
    return seconds.count();
  }

private:
  Engine &engine_;
  SplitMix64 random_{42};
  std::vector<Sequence> sequences_;
};

Status checkRoom(const Engine &engine, const BatchedTest &test,
                 int32_t sequences) {
  const fb::Plan &plan = engine.plan().table();
  int64_t tokens = int64_t(test.prompt) + test.gen;
  if (tokens > engine.context())
    return engine.adviseContext(
        Status(StatusCode::DoesNotFit,
               fmt::format("{} of a sequence exceed the plan's context of {}",
                           counted(tokens, "token"), engine.context())),
        tokens);
  int64_t pages = (tokens + moek::kKvPage - 1) / moek::kKvPage * sequences;
  if (pages <= engine.pages())
    return Status::ok();
  return Status(StatusCode::DoesNotFit,
                fmt::format("{} of {} need more than the plan's cache of {}",
                            counted(sequences, "sequence"),
                            counted(tokens, "token"),
                            int64_t(engine.pages()) * moek::kKvPage))
      .suggesting(recompile(Suggestion::MoreSequences, plan,
                            engine.plan().path(),
                            {{"--sequences", std::to_string(sequences)}}));
}

struct Rates {
  double promptSeconds, genSeconds, prompt, gen, all;
};

Rates ratesOf(const BatchedResult &result) {
  double promptSeconds = median(result.promptSeconds);
  double genSeconds = median(result.genSeconds);
  double prompts = double(result.test.prompt) * result.sequences;
  double gens = double(result.test.gen) * result.sequences;
  return {promptSeconds, genSeconds, prompts / promptSeconds, gens / genSeconds,
          (prompts + gens) / (promptSeconds + genSeconds)};
}

/// Returns the bytes of weights per second that generation read, as a fraction
/// of the limit; nothing if the limit was not measured.
std::optional<double> fractionOf(const BatchedResult &result) {
  std::vector<double> best;
  for (const Rate &rate : result.limits)
    best.push_back(rate.best);
  if (best.empty())
    return std::nullopt;
  double steps = result.test.gen / median(result.genSeconds);
  return result.bytesPerStep * steps / median(best);
}

nlohmann::ordered_json record(const BenchSubject &subject,
                              const BatchedResult &result) {
  Rates rates = ratesOf(result);
  std::optional<double> fraction = fractionOf(result);
  return {{"model_filename", subject.planPath},
          {"model_type", subject.modelType},
          {"target", subject.target},
          {"n_ubatch", subject.ubatch},
          {"n_threads", result.threads},
          {"pp", result.test.prompt},
          {"tg", result.test.gen},
          {"pl", result.sequences},
          {"n_kv", result.sequences * (result.test.prompt + result.test.gen)},
          {"t_pp", rates.promptSeconds},
          {"speed_pp", rates.prompt},
          {"t_tg", rates.genSeconds},
          {"speed_tg", rates.gen},
          {"t", rates.promptSeconds + rates.genSeconds},
          {"speed", rates.all},
          {"bytes_per_step", result.bytesPerStep},
          {"bandwidth_fraction",
           fraction ? nlohmann::ordered_json(*fraction) : nullptr},
          {"samples_t_pp", result.promptSeconds},
          {"samples_t_tg", result.genSeconds}};
}
} // namespace

StatusOr<BatchedResult> runBatched(Engine &engine, const BatchedTest &test,
                                   int32_t sequences, Calibrator *calibrator,
                                   const std::atomic<bool> *cancel,
                                   ProgressLine &progress) {
  MOE_RETURN_IF_ERROR(checkRoom(engine, test, sequences));
  BatchedResult result{test, sequences, engine.team(), {}, {}};
  StepSize step = StepSize::ofSequences(std::min(sequences, engine.batch()),
                                        test.prompt + test.gen / 2.0);
  double runs = std::ceil(double(sequences) / step.tokens);
  const Plan &plan = engine.plan();
  bool isBatch = engine.batch() > 1;
  double bytes =
      phaseWork(plan, isBatch ? PhaseKind::Batch : PhaseKind::Decode, step)
          .bytes;
  if (isBatch || !decodeHasHead(plan.table()))
    bytes += phaseWork(plan, PhaseKind::Logits, step).bytes;
  result.bytesPerStep = runs * bytes;
  auto measure = [&](int32_t gen) -> Status {
    Batch batch(engine, sequences, cancel);
    MOE_ASSIGN_OR_RETURN(double prompt, batch.append(test.prompt));
    result.promptSeconds.push_back(prompt);
    result.genSeconds.push_back(0);
    for (int32_t i = 0; i < gen; ++i) {
      MOE_ASSIGN_OR_RETURN(double seconds, batch.append(1));
      result.genSeconds.back() += seconds;
    }
    return Status::ok();
  };
  auto addLimit = [&] {
    if (calibrator)
      result.limits.push_back(calibrator->readBytesPerSecond());
  };
  if (!test.noWarmup) {
    progress.show(fmt::format("{} sequences: warm-up", sequences));
    MOE_RETURN_IF_ERROR(measure(1));
    result.promptSeconds.clear();
    result.genSeconds.clear();
  }
  addLimit();
  for (int32_t i = 0; i < test.repetitions; ++i) {
    progress.show(fmt::format("{} sequences: run {}/{}", sequences, i + 1,
                              test.repetitions));
    MOE_RETURN_IF_ERROR(measure(test.gen));
    addLimit();
  }
  return result;
}

std::string batchedReport(const BenchSubject &subject,
                          const std::vector<BatchedResult> &results,
                          const std::string &format) {
  std::vector<nlohmann::ordered_json> records;
  for (const BatchedResult &result : results)
    records.push_back(record(subject, result));
  if (format != "md")
    return recordsText(records, format);
  // llama.cpp's columns of its batched bench, then ours.
  std::vector<std::vector<std::string>> rows = {
      {"PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s",
       "T s", "S t/s", "threads", "S_TG of limit"}};
  for (const BatchedResult &result : results) {
    Rates rates = ratesOf(result);
    std::optional<double> fraction = fractionOf(result);
    rows.push_back(
        {fmt::format("{}", result.test.prompt),
         fmt::format("{}", result.test.gen),
         fmt::format("{}", result.sequences),
         fmt::format("{}",
                     result.sequences * (result.test.prompt + result.test.gen)),
         fmt::format("{:.3f}", rates.promptSeconds),
         fmt::format("{:.2f}", rates.prompt),
         fmt::format("{:.3f}", rates.genSeconds),
         fmt::format("{:.2f}", rates.gen),
         fmt::format("{:.3f}", rates.promptSeconds + rates.genSeconds),
         fmt::format("{:.2f}", rates.all), fmt::format("{}", result.threads),
         fraction ? fmt::format("{:.1f} %", 100 * *fraction) : ""});
  }
  return markdownTable(rows, {});
}

} // namespace moert
