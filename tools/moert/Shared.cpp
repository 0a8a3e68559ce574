#include "tools/moert/Shared.h"

#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"
#include "tools/common/ModelPath.h"
#include "tools/common/Progress.h"
#include "tools/common/TheirAnswers.h"
#include "tools/moert/ModelPlan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <unistd.h>

namespace moert {

namespace {
/// Formats numbers as ranges: "1,3-8".
std::string rangesText(const std::vector<int32_t> &ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t end = i + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1)
      ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ascending[i]);
    if (end - i > 1)
      text += fmt::format("-{}", ascending[end - 1]);
    i = end;
  }
  return text;
}

/// Returns text such as "a token uses 4 experts in layers 2,5-7, 6 in layers
/// 1,3,4", or "" if all layers use the same number.
std::string expertCounts(const Plan &plan) {
  std::map<int64_t, std::vector<int32_t>> layers;
  const fb::Phase &phase = *plan.table().phases()->Get(0);
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    const OpSpec &spec = *findOp(instruction.op());
    const fb::Explain *op = opOf(plan.table(), instruction);
    if (spec.op == moek::OpCode::Router && op)
      layers[intOf(instruction, spec, "top_k")].push_back(op->layer());
  }
  if (layers.size() < 2)
    return "";
  std::string text;
  for (auto &[used, numbers] : layers)
    text += fmt::format("{}{}{} in layers {}", text.empty() ? "" : ", ", used,
                        text.empty() ? " experts" : "", rangesText(numbers));
  return "a token uses " + text;
}
/// Returns a sentence about experts whose output is added one layer later (moec
/// compile --defer-experts), or "" if there are none.
std::string deferredExperts(const Plan &plan) {
  const fb::Phase &phase = *plan.table().phases()->Get(0);
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    const OpSpec &spec = *findOp(instruction.op());
    if (spec.op == moek::OpCode::SplitChoices)
      return fmt::format(
          "generation adds the results of {} per token one layer later (moec "
          "compile --defer-experts)",
          counted(uint64_t(intOf(instruction, spec, "last")), "expert"));
  }
  return "";
}
} // namespace

void EngineFlags::addPlan(CLI::App &command) {
  moetool::addModelPath(command, rows::plan, plan);
}

void EngineFlags::addModelOrPlan(CLI::App &command) {
  moetool::addModelPath(command, rows::modelOrPlan, plan);
}

void EngineFlags::addModel(CLI::App &command) {
  moetool::addOption(command, rows::model, options.files.models);
  moetool::addOption(command, rows::weightsFile, options.files.packed);
}

void EngineFlags::addWeights(CLI::App &command) {
  moetool::addOption(command, rows::noMmap, options.copyWeights);
  moetool::addOption(command, rows::allowPaging, options.allowPaging);
  addModel(command);
}

void EngineFlags::addThreads(CLI::App &command) {
  moetool::addReader(command, rows::threads, [this](const std::string &text) {
    MOE_RETURN_IF_ERROR(parseOption(rows::threads, text, options.threads));
    options.threads = usableThreads(options.threads);
    return Status::ok();
  });
  addPin(command);
}

void EngineFlags::addPin(CLI::App &command) {
  moetool::addOption(command, rows::pin, options.pin);
  moetool::addFlag(command, rows::noNuma,
                   [this] { options.planNodes = false; });
  moetool::addReader(
      command, rows::gpuMeeting,
      [this](const std::string &text) {
        std::string word;
        MOE_RETURN_IF_ERROR(parseOption(rows::gpuMeeting, text, word));
        // The words have the order of CudaSync.
        auto words = wordsOf(rows::gpuMeeting);
        options.cuda.sync =
            CudaSync(std::ranges::find(words, word) - words.begin());
        return Status::ok();
      },
      "flags");
  moetool::addFlag(command, rows::noGpuPrefetch,
                   [this] { options.cuda.prefetches = false; });
}

void EngineFlags::addRung(CLI::App &command, bool withContext) {
  moetool::addOption(command, rows::rung, options.rung.number);
  if (withContext)
    moetool::addOption(command, rows::context, options.rung.context);
}

StatusOr<std::string> EngineFlags::planFile(int64_t context) const {
  return planOfModel(plan, {.sequences = sequences, .context = context},
                     compile, command);
}

void EngineFlags::addCompile(CLI::App &app) {
  command = app.get_name();
  compile.add(app);
}

Status EngineFlags::forModel(Status failure) const {
  const Remedy *remedy = failure.isOk() ? nullptr : failure.remedy();
  const auto *again =
      remedy ? std::get_if<RecompileCommand>(&remedy->command) : nullptr;
  if (!again || !isModel(plan))
    return failure;
  OtherCommand other{{"moert", command, plan}};
  auto isChanged = [&](const OptionInfo &info) {
    return std::ranges::find(again->changes, longName(info),
                             &OptionChange::name) != again->changes.end();
  };
  auto add = [&](std::string_view name, const std::string &value) {
    other.words.emplace_back(name);
    if (!value.empty())
      other.words.push_back(value);
  };
  for (const auto &[info, value] : compile.given())
    if (!isChanged(info))
      add(longName(info), value);
  for (const OptionChange &change : again->changes)
    add(change.name, change.value);
  Remedy changed{remedy->suggestion, std::move(other), remedy->detail};
  return std::move(failure).with(std::move(changed));
}

StatusOr<std::unique_ptr<Engine>> EngineFlags::open() const {
  return open(options);
}

StatusOr<std::unique_ptr<Engine>>
EngineFlags::open(const EngineOptions &others) const {
  MOE_ASSIGN_OR_RETURN(const std::string file, planFile(others.rung.context));
  EngineOptions shown = others;
  // Devices are loaded one after another.
  std::optional<moetool::Progress> line;
  std::string of;
  shown.loading = [&](std::string_view device, uint64_t done, uint64_t total) {
    if (!line || of != device) {
      of = device;
      line.emplace("loading weights to " + of);
    }
    line->update(done, total);
  };
  shown.cuda.note = [](const std::string &text) {
    moetool::note("note: {}\n", text);
  };
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       Engine::open(file, shown));
  line.reset();
  if (!engine->rungNote().empty())
    moetool::note("note: {}\n", engine->rungNote());
  for (const std::string &note :
       {engine->nodeNote(), engine->mappingNote(), expertCounts(engine->plan()),
        deferredExperts(engine->plan())})
    if (!note.empty())
      moetool::note("note: {}\n", note);
  if (std::string cost = pagingNote(engine->plan(), engine->fit());
      !cost.empty())
    moetool::note("note: {}\n", cost);
  return engine;
}

int32_t usableThreads(int32_t threads) {
  const CpuBudget budget = readCpuBudget();
  if (threads <= budget.cpus)
    return threads;
  moetool::note("note: --threads {}: this process may use {}, and more threads "
                "are no faster: {} are used\n",
                threads, counted(budget.cpus, "CPU"),
                counted(budget.cores, "thread"));
  return budget.cores;
}

Status checkFile(const std::string &path) {
  std::error_code error;
  if (path.empty() || path == "-" || std::filesystem::exists(path, error))
    return Status::ok();
  Status missing = InputFile::open(path).status();
  // A name of a model elsewhere, such as USER/MODEL.
  if (missing.isOk() || path.ends_with(".gguf") || path.ends_with(".fb"))
    return missing;
  return std::move(missing).append("; " +
                                   std::string(moetool::theirs::kDownloads));
}

Status EngineFlags::checkOutput(const std::string &output, OutputKind kind,
                                bool force) const {
  if (output.empty() || !isModel(plan))
    return Status::ok();
  OutputRule rule(force);
  rule.addInput("the model", plan);
  return rule.target(output, kind).status();
}

Status checkSequences(const Engine &engine, std::string_view option,
                      int32_t wanted) {
  const Plan &plan = engine.plan();
  int32_t most = plan.table().sequences();
  if (wanted <= most)
    return Status::ok();
  return Status(StatusCode::DoesNotFit,
                fmt::format("{}: the plan decodes {} at a time, and {} were "
                            "requested",
                            option, counted(most, "sequence"), wanted))
      .suggesting(recompile(Suggestion::MoreSequences, plan.table(),
                            plan.path(),
                            {{"--sequences", std::to_string(wanted)}}));
}

std::vector<int32_t> randomTokens(const Engine &engine, int32_t count) {
  SplitMix64 random(42);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random.next() % uint64_t(engine.vocab()));
  return tokens;
}

StatusOr<Sequence> sessionAt(Engine &engine, const std::string &path) {
  if (path.empty() || ::access(path.c_str(), F_OK) != 0)
    return engine.sequence();
  MOE_ASSIGN_OR_RETURN(ExistingFile content, existingFileAt(path));
  if (content.kind != OutputKind::Session)
    return engine.sequence();
  return engine.restore(path);
}

/// Reads "ID+X" or "ID-X".
static Status readBias(const std::string &text,
                       std::map<int32_t, float> &biases) {
  const size_t sign = text.find_first_of("+-", 1);
  if (sign == text.npos)
    return Status(StatusCode::Usage,
                  fmt::format("expected a token's number and a bias, as in "
                              "15043+1, found {:?}",
                              text));
  MOE_ASSIGN_OR_RETURN(
      int32_t id, parseNumber<int32_t>(std::string_view(text).substr(0, sign),
                                       0, std::numeric_limits<int32_t>::max()));
  MOE_ASSIGN_OR_RETURN(
      float bias,
      parseNumber<float>(std::string_view(text).substr(sign + 1), 0, 1e6f));
  biases[id] = text[sign] == '-' ? -bias : bias;
  return Status::ok();
}

CLI::Option *addSampling(CLI::App &command, SamplerParams &sampler) {
  moetool::addOption(command, rows::temperature, sampler.temperature);
  moetool::addOption(command, rows::topK, sampler.topK);
  moetool::addOption(command, rows::topP, sampler.topP);
  moetool::addOption(command, rows::minP, sampler.minP);
  moetool::addOption(command, rows::repeatPenalty, sampler.repetitionPenalty);
  moetool::addOption(command, rows::repeatLast, sampler.repetitionWindow);
  moetool::addOption(command, rows::presencePenalty, sampler.presencePenalty);
  moetool::addOption(command, rows::frequencyPenalty, sampler.frequencyPenalty);
  moetool::addReader(command, rows::logitBias,
                     [&sampler](const std::string &text) {
                       return readBias(text, sampler.logitBias);
                     });
  return moetool::addReader(
      command, rows::seed,
      [&sampler](const std::string &text) {
        if (text != "random")
          return parseOption(rows::seed, text, sampler.seed);
        std::random_device random;
        sampler.seed = uint64_t(random()) << 32 | random();
        return Status::ok();
      },
      optionWord(rows::seed, sampler.seed));
}

void ProgressLine::show(const std::string &text) {
  if (!moetool::stderrIsTerminal())
    return;
  moetool::redrawLine(text);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_)
    moetool::redrawLine("");
  shown_ = false;
}

} // namespace moert
