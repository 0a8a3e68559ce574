#include "tools/moert/Shared.h"

#include "runtime/PlanAccess.h"
#include "runtime/Recompile.h"
#include "runtime/base/Text.h"
#include "tools/common/Numbers.h"
#include "tools/common/Progress.h"

#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <type_traits>

namespace moert {

namespace {
/// "1,3-8"
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

/// "a token uses 4 experts in layers 2,5-7, 6 in layers 1,3,4"; "" where all
/// layers use as many.
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
/// "2 of a token's experts are added one layer later (moec compile
/// --defer-experts)"; "" where none are.
std::string deferredExperts(const Plan &plan) {
  const fb::Phase &phase = *plan.table().phases()->Get(0);
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    const fb::Instruction &instruction = *phase.instructions()->Get(i);
    const OpSpec &spec = *findOp(instruction.op());
    if (spec.op == moek::OpCode::SplitChoices)
      return fmt::format("generation adds {} of a token's experts one layer "
                         "later (moec compile --defer-experts)",
                         intOf(instruction, spec, "last"));
  }
  return "";
}
} // namespace

void EngineFlags::addPlan(CLI::App &command) {
  command.add_option("plan", plan, "The plan that moec compile wrote")
      ->required()
      ->type_name("PLAN.fb");
}

void EngineFlags::addModel(CLI::App &command) {
  command
      .add_option("--model", options.files.models,
                  "Where the model file is now, if it was moved since it was "
                  "compiled; once per part of a split model")
      ->allow_extra_args(false)
      ->type_name("PATH")
      ->group("Machine");
  command
      .add_option("--weights-file", options.files.packed,
                  "Where the weights file is now, if it was moved since it was "
                  "written")
      ->type_name("PATH")
      ->group("Machine");
}

void EngineFlags::addWeights(CLI::App &command) {
  CLI::Option *copy =
      command
          .add_flag("--no-mmap", options.copyWeights,
                    "Copy the weights into memory instead of mapping their "
                    "files: slower to start, and faster after that on some "
                    "machines")
          ->group("Machine");
  command
      .add_flag("--allow-paging", options.allowPaging,
                "Run although memory does not hold all weights; what it lacks "
                "is read from the disk for every token")
      ->excludes(copy)
      ->group("Machine");
  addModel(command);
}

void EngineFlags::addThreads(CLI::App &command) {
  moetool::addNumber(command, "-t,--threads", options.threads,
                     "Worker threads; 0 is one per physical core", 0,
                     kMostThreads)
      ->type_name("N")
      ->group("Machine");
  addPin(command);
}

void EngineFlags::addPin(CLI::App &command) {
  command
      .add_flag("--pin", options.pin,
                "Pin each worker thread to a core of its own, and with several "
                "memory nodes let each read its own part of the weights (with "
                "--no-mmap from its own memory); off by default: it gains "
                "nothing where the cores are free, and two pinned programs "
                "would share cores")
      ->group("Machine");
  command
      .add_flag_callback(
          "--no-numa", [this] { options.planNodes = false; },
          "Leave workers and weights on any memory node, whatever the plan "
          "says of several")
      ->group("Machine");
}

void EngineFlags::addRung(CLI::App &command, bool withContext) {
  moetool::addRung(command, options.rung.number);
  if (withContext)
    moetool::addNumber(command, "-c,--ctx", options.rung.context,
                       "Tokens that the plan has to hold: of a ladder, the "
                       "smallest rung that does; 0 is the largest that memory "
                       "has room for",
                       int64_t(0), int64_t(kMostTokens))
        ->type_name("N")
        ->group("Machine");
}

InputSet inputsOf(const Engine &engine) {
  InputSet inputs;
  inputs.add("the plan", engine.plan().path());
  for (const std::string &path : engine.weightPaths())
    inputs.add("the weights", path);
  return inputs;
}

StatusOr<std::unique_ptr<Engine>> EngineFlags::open() const {
  return open(options);
}

StatusOr<std::unique_ptr<Engine>>
EngineFlags::open(const EngineOptions &others) const {
  EngineOptions shown = others;
  // A device after the other.
  std::optional<moetool::Progress> line;
  std::string of;
  shown.loading = [&](std::string_view device, uint64_t done, uint64_t total) {
    if (!line || of != device) {
      of = device;
      line.emplace("loading weights to " + of);
    }
    line->update(done, total);
  };
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       Engine::open(plan, shown));
  line.reset();
  if (!engine->rungNote().empty())
    moetool::note("note: {}\n", engine->rungNote());
  for (const std::string &note :
       {engine->nodeNote(), expertCounts(engine->plan()),
        deferredExperts(engine->plan())})
    if (!note.empty())
      moetool::note("note: {}\n", note);
  if (std::string cost = pagingNote(engine->plan(), engine->fit());
      !cost.empty())
    moetool::note("note: {}\n", cost);
  return engine;
}

Status checkSequences(const Engine &engine, std::string_view option,
                      int32_t wanted) {
  const Plan &plan = engine.plan();
  int32_t most = plan.table().sequences();
  if (wanted <= most)
    return Status::ok();
  OptionChange change{"--sequences", std::to_string(wanted)};
  return Status(
      StatusCode::DoesNotFit,
      fmt::format("{}: the plan decodes {} at a time, and {} are asked for; "
                  "recompile for as many{}",
                  option, counted(most, "sequence"), wanted,
                  recompileLine(plan.table(), plan.path(), {&change, 1})));
}

std::vector<int32_t> randomTokens(const Engine &engine, int32_t count) {
  SplitMix64 random(42);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random.next() % uint64_t(engine.vocab()));
  return tokens;
}

void addSampling(CLI::App &command, SamplerParams &sampler) {
  auto add = [&]<class T>(const char *name, T &value,
                          std::type_identity_t<T> most, const char *help) {
    moetool::addNumber(command, name, value, help, T(0), most)
        ->type_name("X")
        ->group("Sampling");
  };
  constexpr float kLarge = 1e6f;
  add("--temp", sampler.temperature, kLarge,
      "Temperature; 0 always takes the most likely token");
  add("--top-k", sampler.topK, std::numeric_limits<int32_t>::max(),
      "Among the K most likely; 0 is all");
  add("--top-p", sampler.topP, 1,
      "Among the most likely that make up this probability; 1 is all");
  add("--min-p", sampler.minP, 1,
      "Among those at least this fraction as likely as the first; 0 is all");
  add("--repeat-penalty", sampler.repetitionPenalty, kLarge,
      "Divides the logits of recent tokens; 1 is off");
  add("--repeat-last-n", sampler.repetitionWindow, 1 << 20,
      "How many tokens are recent");
  add("--seed", sampler.seed, std::numeric_limits<uint64_t>::max(),
      "The same seed gives the same text");
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
