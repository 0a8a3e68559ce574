// moert profile: time per kind of instruction, and a trace.
#include "runtime/base/OutputFile.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/Numbers.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Profile.h"
#include "tools/moert/Shared.h"

#include <memory>

namespace moert {

namespace {
struct ProfileFlags {
  SessionFlags session;
  int32_t prompt = 128, gen = 32;
  std::string trace;
  bool json = false, noLimits = false;
};

/// A prompt and generated tokens, from an empty cache.
Status runTokens(Session &session, const ProfileFlags &flags) {
  MOE_RETURN_IF_ERROR(session.rewind(0));
  std::vector<int32_t> tokens = randomTokens(session, flags.prompt + flags.gen);
  std::span<const int32_t> all(tokens);
  if (flags.prompt > 0)
    MOE_RETURN_IF_ERROR(
        session.prefill(all.first(size_t(flags.prompt))).status());
  for (int32_t token : all.subspan(size_t(flags.prompt)))
    MOE_RETURN_IF_ERROR(session.decode(token).status());
  return Status::ok();
}

Status profile(const ProfileFlags &flags) {
  MOE_RETURN_IF_ERROR(
      moetool::checkJsonAlone(flags.json, flags.trace, "--trace", "trace"));
  if (flags.prompt + flags.gen == 0)
    return Status(StatusCode::Usage,
                  "nothing to measure: -p and -n are both 0");
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, flags.session.open());
  session->setCancel(moetool::catchInterrupt());
  // To standard output goes the trace alone.
  bool piped = flags.trace == "-";
  std::optional<OutputFile> trace;
  if (!flags.trace.empty() && !piped) {
    MOE_RETURN_IF_ERROR(inputsOf(*session).refuse(flags.trace));
    MOE_ASSIGN_OR_RETURN(trace, OutputFile::create(flags.trace));
  }
  ProgressLine progress;
  ProfileSetting setting;
  setting.mapped = !flags.session.options.copyWeights;
  if (!flags.noLimits) {
    progress.show("measuring this machine");
    MOE_ASSIGN_OR_RETURN(Calibrator calibrator,
                         Calibrator::create(session->threads()));
    setting.limits = calibrator.measure();
  }
  progress.show("warm-up");
  MOE_RETURN_IF_ERROR(runTokens(*session, flags));
  progress.show("profiling");
  Profile profile(session->plan(), !flags.trace.empty());
  session->setObserver([&](const StepTimes &times) { profile.add(times); });
  MOE_RETURN_IF_ERROR(runTokens(*session, flags));
  progress.clear();
  if (trace) {
    std::string text = profile.trace();
    MOE_RETURN_IF_ERROR(trace->write(text.data(), text.size()));
    MOE_RETURN_IF_ERROR(trace->commit());
  }
  setting.weightPages = session->weightPages();
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
  CLI::App *command = tool.command(
      "profile", "Show where the time of a plan's instructions goes",
      [flags] { return profile(*flags); });
  flags->session.addPlan(*command);
  moetool::addNumber(*command, "-p,--n-prompt", flags->prompt,
                     "Length of the prompt", 0, kMostTokens)
      ->type_name("N")
      ->group("Run");
  moetool::addNumber(*command, "-n,--n-gen", flags->gen, "Tokens to generate",
                     0, kMostTokens)
      ->type_name("N")
      ->group("Run");
  command
      ->add_flag("--no-limits", flags->noLimits,
                 "Do not measure the machine's read bandwidth and int8 peak")
      ->group("Run");
  flags->session.addThreads(*command);
  flags->session.addWeights(*command);
  command
      ->add_option(
          "--trace", flags->trace,
          "Write every instruction as Chrome trace JSON, for "
          "chrome://tracing or Perfetto; to standard output for -, the report "
          "then to standard error")
      ->type_name("FILE.json")
      ->group("Output");
  command->add_flag("--json", flags->json, "Print a JSON object")
      ->group("Output");
}

} // namespace moert
