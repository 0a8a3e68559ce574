// moec calibrate: measures this machine for `--target native`, GPUs included.
#include "compiler/Machine/Targets/NativeTarget.h"
#include "runtime/plan/OutputRule.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"
#include "tools/moec/PrintTarget.h"

#include <memory>
#include <optional>

using moert::Status;

namespace moec {

namespace {
struct CalibrateFlags {
  std::string output;
  bool json = false, force = false;
};

Status calibrate(const CalibrateFlags &flags) {
  std::optional<moert::OutputTarget> file;
  if (!flags.output.empty() && flags.output != "-") {
    MOE_ASSIGN_OR_RETURN(file,
                         moert::OutputRule(flags.force)
                             .target(flags.output, moert::OutputKind::Target));
  }
  MOE_ASSIGN_OR_RETURN(
      Calibration calibration,
      calibrateNative(
          [](const std::string &what) {
            moetool::note("measuring {}\n", what);
          },
          {.measurements = flags.force ? 1 : kMeasurements,
           .detail =
               moetool::stderrIsTerminal()
                   ? [](const std::string &what) { moetool::redrawLine(what); }
                   : CalibrationProgress()}));
  if (moetool::stderrIsTerminal())
    moetool::redrawLine("");
  const TargetDesc &target = calibration.target;
  // Standard output is for the description alone if it goes there.
  bool piped = flags.json || flags.output == "-";
  auto tell = [piped](std::string_view text) {
    piped ? moetool::noteText(text) : moetool::printText(text);
  };
  if (piped)
    moetool::printJson(toJson(target));
  else
    printTarget(target);
  for (const std::string &note : target.notes)
    moetool::note("note: {}\n", note);
  if (file) {
    MOE_RETURN_IF_ERROR(saveTargetFile(*file, target));
    tell(fmt::format("written to {}\n", flags.output));
  }
  if (!calibration.disturbance.isQuiet()) {
    moetool::note("note: other programs use this machine ({}), so that it may "
                  "do better than was measured{}\n",
                  calibration.disturbance.text(),
                  flags.force ? ""
                              : ". Nothing was stored for --target native: "
                                "calibrate again when it is quiet, or with "
                                "--force");
    if (!flags.force)
      return Status::ok();
  }
  // Without a cache folder the file is still of use.
  if (!flags.output.empty() && nativeTargetFile().empty())
    return Status::ok();
  MOE_RETURN_IF_ERROR(saveNativeTarget(target));
  tell(fmt::format("stored in {}: --target native uses it\n",
                   nativeTargetFile()));
  return Status::ok();
}
} // namespace

void addCalibrateCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App *command = tool.command(
      "calibrate",
      "Measure this machine, so that --target native plans for what it does. "
      "Of a GPU, memory and link are measured and matrix rates computed from "
      "its clock and published figures",
      [flags] { return calibrate(*flags); });
  moetool::addOption(*command, rows::calibrateOutput, flags->output);
  moetool::addOption(*command, rows::calibrateJson, flags->json);
  moetool::addOption(*command, rows::calibrateForce, flags->force);
}

} // namespace moec
