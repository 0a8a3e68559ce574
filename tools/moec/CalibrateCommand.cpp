// moec calibrate: measures this machine for `--target native`, GPUs included.
#include "compiler/Targets/NativeTarget.h"
#include "tools/moec/Commands.h"
#include "tools/moec/PrintTarget.h"

#include <memory>

using moert::Status;

namespace moec {

namespace {
Status calibrate(const std::string &output, bool json) {
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       calibrateNative([](const std::string &what) {
                         moetool::note("measuring {}\n", what);
                       }));
  // Standard output is for the description alone if it goes there.
  bool piped = json || output == "-";
  auto tell = [piped](std::string_view text) {
    piped ? moetool::noteText(text) : moetool::printText(text);
  };
  if (piped)
    moetool::printJson(toJson(target));
  else
    printTarget(target);
  for (const std::string &note : target.notes)
    moetool::note("note: {}\n", note);
  if (!output.empty()) {
    if (output != "-") {
      MOE_RETURN_IF_ERROR(saveTargetFile(output, target));
      tell(fmt::format("written to {}\n", output));
    }
    // Without a cache folder the file is still of use.
    if (nativeTargetFile().empty())
      return Status::ok();
  }
  MOE_RETURN_IF_ERROR(saveNativeTarget(target));
  tell(fmt::format("stored in {}: --target native uses it\n",
                   nativeTargetFile()));
  if (std::string note = unusedGpuNote(target); !note.empty())
    moetool::note("note: {}\n", note);
  return Status::ok();
}
} // namespace

void addCalibrateCommand(moetool::Tool &tool) {
  auto output = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App *command = tool.command(
      "calibrate",
      "Measure this machine, so that --target native plans for what it does. "
      "Of "
      "a GPU, memory and link are measured and matrix rates computed from its "
      "clock and published figures; native does not use it until moert runs on "
      "GPUs, --target-file does",
      [output, json] { return calibrate(*output, *json); });
  command
      ->add_option(
          "-o,--output", *output,
          "Write it here too (-: to standard output), to edit and pass "
          "to compile --target-file")
      ->type_name("FILE.json");
  command->add_flag("--json", *json,
                    "Print the description as --target-file takes it");
}

} // namespace moec
