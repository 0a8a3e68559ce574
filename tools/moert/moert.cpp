//===- moert.cpp - The runtime's command line -----------------------------===//

#include "tools/moert/Commands.h"

#include <string_view>

int main(int argc, char **argv) {
  // llama-bench's one flag of two letters; elsewhere it is -p with the text g.
  static char pair[] = "--pg";
  if (argc > 1 && std::string_view(argv[1]) == "bench")
    for (int i = 2; i < argc; ++i)
      if (std::string_view(argv[i]) == "-pg")
        argv[i] = pair;
  moetool::Tool tool("moert",
                     "Runs plans that moec compiled: text, logits, speed.");
  moert::addRunCommand(tool);
  moert::addChatCommand(tool);
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
  return tool.main(argc, argv);
}
