#include "tools/moert/Shared.h"

#include "runtime/text/Sampler.h"
#include "tools/common/Numbers.h"

#include <fmt/format.h>

namespace moert {

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
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       Engine::open(plan, others));
  if (std::string cost = pagingNote(engine->plan(), engine->fit());
      !cost.empty())
    moetool::note("note: {}\n", cost);
  return engine;
}

std::vector<int32_t> randomTokens(const Engine &engine, int32_t count) {
  SplitMix64 random(42);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random.next() % uint64_t(engine.vocab()));
  return tokens;
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
