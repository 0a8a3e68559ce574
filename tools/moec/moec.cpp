//===- moec.cpp - The compiler's command line -----------------------------===//

#include "tools/common/LlvmFailure.h"
#include "tools/moec/Commands.h"

int main(int argc, char **argv) {
  moetool::catchLlvmFailures();
  moetool::Tool tool(
      "moec", "Compile mixture-of-experts GGUF models into plans for moert");
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
