// moert profile: time per kind of instruction, and a trace.
#include "runtime/base/OutputFile.h"
#include "tools/common/Force.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Profile.h"
#include "tools/moert/Shared.h"

#include <memory>

namespace moert {

namespace {
struct ProfileFlags {
  EngineFlags engine;
  int32_t prompt = 128, gen = 32, depth = 0;
  std::string trace;
  bool json = false, noLimits = false, force = false;
};

/// Runs a prompt and generates tokens, after `depth` tokens that are not
/// observed.
Status runTokens(Engine &engine, Sequence &sequence, const ProfileFlags &flags,
                 Engine::StepObserver observer) {
  MOE_RETURN_IF_ERROR(sequence.rewind(0));
  if (flags.depth > 0)
    MOE_RETURN_IF_ERROR(
        engine.append(sequence, randomTokens(engine, flags.depth)).status());
  engine.setObserver(std::move(observer));
  std::vector<int32_t> tokens = randomTokens(engine, flags.prompt + flags.gen);
  std::span<const int32_t> all(tokens);
  if (flags.prompt > 0)
    MOE_RETURN_IF_ERROR(
        engine.append(sequence, all.first(size_t(flags.prompt))).status());
  for (int32_t token : all.subspan(size_t(flags.prompt)))
    MOE_RETURN_IF_ERROR(engine.append(sequence, token).status());
  return Status::ok();
}

Status profile(ProfileFlags &flags) {
  MOE_RETURN_IF_ERROR(
      moetool::checkJsonAlone(flags.json, flags.trace, "--trace", "trace"));
  if (flags.prompt + flags.gen == 0)
    return Status(StatusCode::Usage,
                  "nothing to measure: -p and -n are both 0");
  MOE_RETURN_IF_ERROR(
      flags.engine.checkOutput(flags.trace, OutputKind::Trace, flags.force));
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  // A shared prefix would leave nothing to compute.
  Sequence sequence = engine->sequence({.sharePrefixes = false});
  sequence.setCancel(moetool::catchInterrupt());
  // If the trace goes to standard output, nothing else may.
  bool piped = flags.trace == "-";
  std::optional<OutputFile> trace;
  if (!flags.trace.empty() && !piped) {
    MOE_ASSIGN_OR_RETURN(
        OutputTarget target,
        engine->outputRule(flags.force).target(flags.trace, OutputKind::Trace));
    MOE_ASSIGN_OR_RETURN(trace, OutputFile::create(std::move(target)));
  }
  ProgressLine progress;
  ProfileSetting setting;
  setting.mapped = !flags.engine.options.copyWeights;
  if (!flags.noLimits) {
    progress.show("measuring this machine");
    MOE_ASSIGN_OR_RETURN(Calibrator calibrator,
                         Calibrator::create(engine->team()));
    setting.limits = calibrator.measure();
  }
  progress.show("warm-up");
  MOE_RETURN_IF_ERROR(runTokens(*engine, sequence, flags, {}));
  progress.show("profiling");
  Profile profile(engine->plan(), !flags.trace.empty());
  MOE_RETURN_IF_ERROR(
      runTokens(*engine, sequence, flags,
                [&](const PhaseRun &times) { profile.add(times); }));
  progress.clear();
  if (trace) {
    std::string text = profile.trace();
    MOE_RETURN_IF_ERROR(trace->write(text.data(), text.size()));
    MOE_RETURN_IF_ERROR(trace->commit());
  }
  setting.weightPages = engine->weightPages();
  std::string report = flags.json ? profileJson(profile, setting)
                                  : profileText(profile, setting);
  if (piped) {
    moetool::printJson(profile.trace());
    moetool::noteText(report);
  } else if (flags.json) {
    moetool::printJson(report);
  } else {
    moetool::printText(report);
  }
  return Status::ok();
}
} // namespace

void addProfileCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App *command = addEngineCommand(
      tool, "profile", "Show where the time of a plan's instructions goes",
      flags, profile);
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::profilePrompt, flags->prompt);
  moetool::addOption(*command, rows::profileGen, flags->gen);
  moetool::addOption(*command, rows::profileDepth, flags->depth);
  moetool::addOption(*command, rows::noLimits, flags->noLimits);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  moetool::addOption(*command, rows::trace, flags->trace);
  moetool::addForce(*command, flags->force, "Output");
  moetool::addOption(*command, rows::json, flags->json);
  flags->engine.addCompile(*command);
}

} // namespace moert
