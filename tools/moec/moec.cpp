//===- moec.cpp - The compiler's command line -----------------------------===//

#include "tools/common/LlvmFailure.h"
#include "tools/moec/Commands.h"

#include <string_view>
#include <utility>

/// Options of compile and plan as llama.cpp spells them: letters after one dash
/// that are no options of one letter each.
static void spellOut(int argc, char **argv) {
  static char names[][24] = {"--override-tensor", "--n-gpu-layers", "--cpu-moe",
                             "--n-cpu-moe"};
  static constexpr std::pair<std::string_view, int> shortNames[] = {
      {"-ot", 0}, {"-ngl", 1}, {"-cmoe", 2}, {"-ncmoe", 3}};
  if (argc < 2 || (std::string_view(argv[1]) != "compile" &&
                   std::string_view(argv[1]) != "plan"))
    return;
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i)
    for (auto [name, meant] : shortNames)
      if (name == argv[i])
        argv[i] = names[meant];
}

int main(int argc, char **argv) {
  spellOut(argc, argv);
  moetool::catchLlvmFailures();
  moetool::Tool tool(
      "moec", "Compiles mixture-of-experts GGUF models into plans for moert.");
  moec::addCompileCommand(tool);
  moec::addPlanCommand(tool);
  moec::addDoctorCommand(tool);
  moec::addModelCommand(tool);
  moec::addExplainCommand(tool);
  moec::addDiffCommand(tool);
  moec::addInspectCommand(tool);
  moec::addAssembleCommand(tool);
  moec::addTargetsCommand(tool);
  moec::addCalibrateCommand(tool);
  moec::addArchitecturesCommand(tool);
  moec::addFormatsCommand(tool);
  return tool.main(argc, argv);
}
