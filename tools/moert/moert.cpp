//===- moert.cpp - The runtime's command line -----------------------------===//

#include "tools/moert/Commands.h"
#include "tools/moert/ModelPlan.h"

int main(int argc, char **argv) {
  moetool::Tool tool(
      "moert",
      "Run models: moert MODEL.gguf talks with a model, moert serve MODEL.gguf "
      "serves it. A model is compiled for this machine first, and its plan is "
      "kept (moert plans). Commands take plans of moec compile as well");
  moert::addRunCommand(tool);
  moert::addChatCommand(tool);
  moert::addServeCommand(tool);
  moert::addLogitsCommand(tool);
  moert::addTokenizeCommand(tool);
  moert::addRenderCommand(tool);
  moert::addPerplexityCommand(tool);
  moert::addBenchCommand(tool);
  moert::addProfileCommand(tool);
  moert::addProfileRouterCommand(tool);
  moert::addDevicesCommand(tool);
  moert::addInfoCommand(tool);
  moert::addVerifyCommand(tool);
  moert::addPlansCommand(tool);
  return tool.main(argc, argv, moert::withCommand);
}
